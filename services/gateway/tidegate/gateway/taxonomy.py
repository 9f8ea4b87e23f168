"""Which of the nine causes a failed attempt has; a status alone never decides. Pure.

Precedence: typed code, refined by the message under it; then status with a typed family; then the socket
phase; then a text ladder over provider-authored, untyped bodies; else `unknown`.

Errors about a request quote it, and what they quote one client wrote: such words must not close a target for all
the others. So they are read only for what concerns that request, or as whole sentences at the very beginning.
"""

import re
from collections.abc import Callable, Mapping
from typing import Any, Literal

import msgspec
import orjson

from tidegate.events.causes import ABOUT_A_REQUEST
from tidegate.events.signals import Phase
from tidegate.events.types import Cause
from tidegate.gateway import timing

Confidence = Literal["high", "medium", "low"]
MAX_EXCERPT = 512
MAX_READ = 2_048
"""Characters of a provider's words that are looked at: proxies repeat whole prompts, and patterns take their time."""
Conceal = Callable[[str], str]
"""Takes what must not be shown (the target's credential) out of a provider's words, before they are cut."""


class Failure(msgspec.Struct, frozen=True, kw_only=True):
    """Evidence of one failed attempt. `message` is the provider's own words (≤ 512), shown, never stored."""

    cause: Cause
    phase: Phase
    rule: str
    confidence: Confidence = "high"
    status: int | None = None
    retry_after_ms: int | None = None
    reset_at_ns: int | None = None
    message: str = ""


_TYPED: dict[str, Cause] = {
    # Anthropic error types
    "rate_limit_error": "rate_limited",
    "overloaded_error": "unavailable",
    "api_error": "unavailable",
    "timeout_error": "unavailable",
    "authentication_error": "auth",
    "billing_error": "auth",
    "invalid_request_error": "invalid_request",
    "not_found_error": "invalid_request",
    "request_too_large": "invalid_request",
    # OpenAI error codes and types
    "insufficient_quota": "quota_exhausted",
    "rate_limit_exceeded": "rate_limited",
    "invalid_api_key": "auth",
    "account_deactivated": "auth",
    "context_length_exceeded": "invalid_request",
    "model_not_found": "invalid_request",
    "unsupported_parameter": "invalid_request",
    "content_policy_violation": "denied",
    "content_filter": "denied",
    "server_error": "unavailable",
    "service_unavailable": "unavailable",
    "tokens": "rate_limited",
    "requests": "rate_limited",
}


def _words(pattern: str) -> re.Pattern[str]:
    return re.compile(pattern, re.IGNORECASE)


_QUOTA = _words(
    r"\b(?:5|five)[- ]?hour\b|\b(?:session|weekly|daily|monthly|usage|subscription|plan)\s+(?:usage\s+)?"
    r"(?:limit|quota)\b|quota (?:is )?(?:exhausted|exceeded|used up)|exceeded your current quota"
)
_BILLING = _words(r"credit balance|billing|payment required|prepaid|insufficient (?:funds|balance)")
_POLICY = _words(
    r"content (?:management )?policy|(?:blocked|denied|rejected) by .{0,40}polic|safety (?:system|filter)"
)
_OWN_QUOTA = _words(
    r"\s*you(?:'ve| have) (?:reached|hit|exceeded) your|\s*you exceeded your current quota"
    r"|\s*(?:5|five)[- ]?hour limit reached"
)
_OWN_BILLING = _words(r"\s*your (?:credit )?balance is too low|\s*your account (?:is not active|has been)")
"""Beginnings of sentences in which providers speak of the account; for `match`, not `search`."""
_QUOTED = re.compile(r"(?<!\w)'[^']*'(?!\w)|\"[^\"]*(?:\"|\Z)|`[^`]*(?:`|\Z)|\u201c[^\u201d]*(?:\u201d|\Z)")
"""What is quoted, also where the end of the quotation was cut off."""
_OVERFLOW = _words(r"context (?:length|window)|maximum context|prompt is too long|too many tokens")

Rung = tuple[str, re.Pattern[str], Cause]
_THROTTLED: tuple[Rung, ...] = (
    ("quota_wording", _QUOTA, "quota_exhausted"),
    ("billing_wording", _BILLING, "auth"),
)
_ACCOUNT: tuple[Rung, ...] = (
    ("quota_wording", _OWN_QUOTA, "quota_exhausted"),
    ("billing_wording", _OWN_BILLING, "auth"),
)
_ABOUT_THE_REQUEST: tuple[Rung, ...] = (
    ("text_policy", _POLICY, "denied"),
    ("text_overflow", _OVERFLOW, "invalid_request"),
)
_LADDER: tuple[Rung, ...] = (
    ("text_quota", _QUOTA, "quota_exhausted"),
    ("text_rate", _words(r"rate.?limit|too many requests"), "rate_limited"),
    ("text_auth", _words(r"unauthorized|invalid (?:x-)?api key|authentication"), "auth"),
    ("text_billing", _BILLING, "auth"),
    *_ABOUT_THE_REQUEST,
    (
        "text_unavailable",
        _words(r"overloaded|service unavailable|internal server error|bad gateway|server had an error"),
        "unavailable",
    ),
)
_STATUS_FAMILY: dict[int, tuple[str, Cause]] = {
    401: ("status_401_typed", "auth"),
    402: ("status_402_typed", "quota_exhausted"),
    404: ("status_404_typed", "invalid_request"),
    408: ("status_408_typed", "unavailable"),
    413: ("status_413_typed", "invalid_request"),
    422: ("status_422_typed", "invalid_request"),
    429: ("status_429_typed", "rate_limited"),
    500: ("status_500_typed", "unavailable"),
    502: ("status_502_typed", "unavailable"),
    503: ("status_503_typed", "unavailable"),
    504: ("status_504_typed", "unavailable"),
    529: ("status_529_typed", "unavailable"),
}
_TOO_MANY = 429
_GATEWAY_STATUSES = frozenset({502, 503, 504, 529})


def classify_answer(
    status: int,
    headers: Mapping[str, str],
    body: bytes,
    now_ns: int,
    phase: Phase = "body",
    conceal: Conceal = str,
) -> Failure:
    """Cause of an error answer (status ≥ 400, or 200 with an error body)."""
    error = _error_object(body)
    message = _message_of(error, body)
    cause, rule, confidence = _cause_of(status, error, message)
    return Failure(
        cause=cause,
        phase=phase,
        rule=rule,
        confidence=confidence,
        status=status,
        retry_after_ms=timing.retry_after_ms(headers, now_ns),
        reset_at_ns=_reset(headers, error, message, now_ns),
        message=conceal(message)[:MAX_EXCERPT],
    )


def classify_event(data: Any, now_ns: int, status: int = 200, conceal: Conceal = str) -> Failure:
    """Cause of an error under a 200, in the answer or in an event of its stream; `data` is its parsed JSON.

    A status that the error itself states holds instead of `status`.
    """
    error = error_in(data)
    code = error.get("code")
    if isinstance(code, int) and code in _STATUS_FAMILY:
        status = code
    message = _message_of(error, b"")
    cause, rule, confidence = _cause_of(status, error, message)
    return Failure(
        cause=cause,
        phase="mid_stream",
        rule="event_" + rule,
        confidence=confidence,
        status=status,
        reset_at_ns=_reset({}, error, message, now_ns),
        message=conceal(message)[:MAX_EXCERPT],
    )


def _cause_of(status: int, error: Mapping[str, Any], message: str) -> tuple[Cause, str, Confidence]:
    for field in ("code", "type"):
        name = error.get(field)
        typed = _TYPED.get(name) if isinstance(name, str) else None
        if typed is not None:
            return _refined(typed, error, message) or (typed, f"{field}:{name}", "high")
    family = _STATUS_FAMILY.get(status)
    if error and family is not None:
        rule, typed = family
        # Nobody but the operator chose the credential that a 401 is about.
        return _refined(typed, error, message) or (typed, rule, "high" if typed == "auth" else "medium")
    return _told(status, error, message)


def _told(status: int, error: Mapping[str, Any], message: str) -> tuple[Cause, str, Confidence]:
    """Cause by words alone."""
    if status in ABOUT_A_REQUEST:
        found = _sentence(error, message) or _find(_ABOUT_THE_REQUEST, message)
        return ("unknown", "none", "low") if found is None else (*found, "low")
    found = _find(_LADDER, _QUOTED.sub("", message))
    if found is not None:
        return *found, "medium" if status == _TOO_MANY or found[0] != "quota_exhausted" else "low"
    if status in _GATEWAY_STATUSES:
        # An untyped answer of the gateway statuses comes from a proxy in front of the provider.
        return "unavailable", f"status_{status}_untyped", "low"
    return "unknown", "none", "low"


def _refined(typed: Cause, error: Mapping[str, Any], message: str) -> tuple[Cause, str, Confidence] | None:
    """What the message under a typed cause tells more of; words are never high confidence."""
    if typed == "rate_limited":
        found = _find(_THROTTLED, _QUOTED.sub("", message))
    elif typed == "invalid_request":
        found = _sentence(error, message)
        if found is None and _POLICY.search(message):
            found = "denied", "policy_wording"
    else:
        return None
    return None if found is None else (found[0], found[1], "medium")


def _sentence(error: Mapping[str, Any], message: str) -> tuple[Cause, str] | None:
    """What the provider says of the account, unless the error is about a parameter of the request."""
    if error.get("param") is not None:
        return None
    for rule, pattern, cause in _ACCOUNT:
        if pattern.match(message):
            return cause, rule
    return None


def _find(ladder: tuple[Rung, ...], message: str) -> tuple[Cause, str] | None:
    for rule, pattern, cause in ladder:
        if pattern.search(message):
            return cause, rule
    return None


def error_in(data: Any) -> dict[str, Any]:
    """The error object of an answer or event, wherever it stands; empty when there is none.

    Under `error`, as an object or as a text; or the whole is one and says so (vLLM: `"object": "error"`).
    """
    if not isinstance(data, dict):
        return {}
    error = data.get("error")
    if isinstance(error, dict):
        return error
    if isinstance(error, str) and error:
        return {"message": error}
    return data if "error" in (data.get("object"), data.get("type")) and "message" in data else {}


def _error_object(body: bytes) -> dict[str, Any]:
    try:
        return error_in(orjson.loads(body))
    except orjson.JSONDecodeError:
        return {}


def _message_of(error: Mapping[str, Any], body: bytes) -> str:
    message = error.get("message")
    if isinstance(message, str):
        return message[:MAX_READ]
    return "" if error else body[: 4 * MAX_READ].decode("utf-8", "replace")[:MAX_READ]


_SPENT_LIMITS = (
    ("anthropic-ratelimit-tokens-remaining", "anthropic-ratelimit-tokens-reset"),
    ("anthropic-ratelimit-requests-remaining", "anthropic-ratelimit-requests-reset"),
    ("x-ratelimit-remaining-tokens", "x-ratelimit-reset-tokens"),
    ("x-ratelimit-remaining-requests", "x-ratelimit-reset-requests"),
)


def _reset(headers: Mapping[str, str], error: Mapping[str, Any], message: str, now_ns: int) -> int | None:
    explicit = error.get("resets_at")
    found = timing.reset_at_ns(explicit, now_ns) if isinstance(explicit, str) else None
    if found is not None:
        return found
    found = timing.reset_in_message(message, now_ns)
    if found is not None:
        return found
    for remaining, reset in _SPENT_LIMITS:
        # Only the limit that is spent tells when to come back; another one's reset is no evidence.
        if headers.get(remaining) == "0":
            found = timing.reset_at_ns(headers.get(reset), now_ns)
            if found is not None:
                return found
    return None
