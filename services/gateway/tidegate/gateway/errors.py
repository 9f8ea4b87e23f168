"""Error → status, headers and body in the client's dialect; the only place that knows HTTP codes."""

import math
from typing import Any, Literal

import msgspec
import orjson

from tidegate.events.types import Dialect

Code = Literal[
    "key_missing",
    "key_unknown",
    "route_forbidden",
    "route_unknown",
    "body_invalid",
    "body_too_large",
    "state_unsupported",
    "nothing_admitted",
    "journal_unwritable",
    "overloaded",
    "draining",
    "policy_denied",
    "request_incompatible",
    "upstream_auth",
    "upstream_rate_limited",
    "upstream_quota_exhausted",
    "upstream_unavailable",
    "upstream_unreachable",
    "upstream_unknown",
    "deadline_exceeded",
    "stream_truncated",
    "client_slow",
    "not_found",
    "internal_error",
]
"""Every code a client can see (closed; docs/reference/errors.md lists them)."""

STATUS: dict[Code, int] = {
    "key_missing": 401,
    "key_unknown": 401,
    "route_forbidden": 403,
    "route_unknown": 404,
    "body_invalid": 400,
    "body_too_large": 413,
    "state_unsupported": 400,
    "nothing_admitted": 503,
    "journal_unwritable": 503,
    "overloaded": 503,
    "draining": 503,
    "policy_denied": 403,
    "request_incompatible": 400,
    "upstream_auth": 502,
    "upstream_rate_limited": 503,
    "upstream_quota_exhausted": 503,
    "upstream_unavailable": 502,
    "upstream_unreachable": 502,
    "upstream_unknown": 502,
    "deadline_exceeded": 504,
    "stream_truncated": 502,
    "client_slow": 408,
    "not_found": 404,
    "internal_error": 500,
}

_OPENAI_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "insufficient_quota",
    403: "permission_error",
    404: "invalid_request_error",
    408: "timeout_error",
    413: "invalid_request_error",
    415: "invalid_request_error",
    429: "rate_limit_error",
    504: "timeout_error",
}
_ANTHROPIC_TYPES = {
    400: "invalid_request_error",
    401: "authentication_error",
    402: "billing_error",
    403: "permission_error",
    404: "not_found_error",
    408: "timeout_error",
    413: "request_too_large",
    415: "invalid_request_error",
    429: "rate_limit_error",
    503: "overloaded_error",
    504: "timeout_error",
}


class GatewayError(Exception):
    """A refusal or failure the client is told about. `message` must be safe to show."""

    def __init__(
        self,
        code: Code,
        message: str,
        *,
        retry_after_s: float | None = None,
        status: int | None = None,
        param: str | None = None,
    ) -> None:
        super().__init__(message)
        self.code: Code = code
        self.message = message
        self.retry_after_s = retry_after_s
        self.status = STATUS[code] if status is None else status
        self.param = param
        """The field of the body that is to blame."""


class Rendered(msgspec.Struct, frozen=True):
    """An answer ready to send; `head` is complete header lines."""

    status: int
    head: bytes
    body: bytes


def request_id_line(request: str) -> bytes:
    """The header line that names a request to its client."""
    return b"x-tidegate-request-id: %b\r\n" % request.encode()


def envelope(error: GatewayError, dialect: Dialect) -> dict[str, Any]:
    """The error object of a dialect: Anthropic's for messages, OpenAI's for all else."""
    if dialect == "anthropic":
        kind = _ANTHROPIC_TYPES.get(error.status, "api_error")
        return {"type": "error", "error": {"type": kind, "message": error.message, "code": error.code}}
    kind = _OPENAI_TYPES.get(error.status, "server_error")
    return {"error": {"message": error.message, "type": kind, "param": error.param, "code": error.code}}


def render(error: GatewayError, dialect: Dialect) -> Rendered:
    """The whole HTTP answer to an error."""
    head = b"content-type: application/json\r\n"
    if error.retry_after_s is not None:
        head += b"retry-after: %d\r\n" % max(1, math.ceil(error.retry_after_s))
    return Rendered(error.status, head, orjson.dumps(envelope(error, dialect)))


def error_event(error: GatewayError, dialect: Dialect) -> bytes:
    """One typed error event for a stream that has begun; no success marker follows it."""
    data = envelope(error, dialect)
    if dialect == "openai":
        return b"data: %b\n\n" % orjson.dumps(data)
    if dialect == "openai-responses":
        # Flat for readers of the responses API, nested for SDKs that raise on an `error` in any dialect.
        data = {"type": "error", "code": error.code, "message": error.message, "param": error.param, **data}
    return b"event: error\ndata: %b\n\n" % orjson.dumps(data)
