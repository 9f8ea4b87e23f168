"""Answers the listener gives by itself, before or instead of the application; pure."""

from http import HTTPStatus

import msgspec
import orjson


class Refusal(msgspec.Struct, frozen=True):
    """One refusal: HTTP status, our closed code, a text for the client, extra header lines."""

    status: int
    code: str
    message: str
    extra: bytes = b""


MALFORMED = Refusal(400, "malformed_request", "The request is not valid HTTP/1.1.")
HOST_INVALID = Refusal(400, "host_invalid", "Exactly one valid Host header is required.")
TARGET_INVALID = Refusal(400, "target_invalid", "The request target must be an absolute path on this host.")
FRAMING_INVALID = Refusal(
    400, "framing_invalid", "The length of the body is ambiguous or its coding unsupported."
)
HEAD_LATE = Refusal(408, "header_timeout", "The request head did not arrive in time.")
BODY_LATE = Refusal(408, "body_timeout", "The request body did not arrive in time.")
BODY_TOO_LARGE = Refusal(413, "body_too_large", "The request body is larger than this gateway accepts.")
EXPECTATION_UNKNOWN = Refusal(417, "expectation_unknown", "Only 'Expect: 100-continue' is understood.")
UPGRADE_REQUIRED = Refusal(
    426, "upgrade_not_supported", "No WebSocket here: send POST over HTTP/1.1.", b"upgrade: HTTP/1.1\r\n"
)
HEAD_TOO_LARGE = Refusal(431, "headers_too_large", "The request head is larger than this gateway accepts.")
TOO_MANY_FIELDS = Refusal(431, "too_many_headers", "The request has more header fields than are accepted.")
METHOD_UNKNOWN = Refusal(501, "method_not_supported", "This method is not supported.")
TOO_MANY_CONNECTIONS = Refusal(
    503, "too_many_connections", "The gateway has no free connection.", b"retry-after: 1\r\n"
)
BODIES_TOO_MANY = Refusal(
    503, "overloaded", "The gateway holds too many request bodies.", b"retry-after: 1\r\n"
)
VERSION_UNKNOWN = Refusal(505, "version_not_supported", "Only HTTP/1.1 and HTTP/1.0 are supported.")
INTERNAL = Refusal(500, "internal_error", "The gateway failed to answer.")


def refusal_body(refusal: Refusal, target: bytes) -> bytes:
    """JSON error envelope: Anthropic's for `/v1/messages*`, OpenAI's for all other targets."""
    kind = "invalid_request_error" if refusal.status < 500 else "api_error"
    detail = {"type": kind, "code": refusal.code, "message": refusal.message}
    if target.startswith(b"/v1/messages"):
        if refusal.status == 413:
            detail["type"] = "request_too_large"
        return orjson.dumps({"type": "error", "error": detail})
    return orjson.dumps({"error": {**detail, "param": None}})


def render(refusal: Refusal, target: bytes = b"", *, lines: bytes = b"", bodyless: bool = False) -> bytes:
    """The whole HTTP answer, with `connection: close`; `lines` are more header lines, `bodyless` is for HEAD."""
    body = refusal_body(refusal, target)
    phrase = HTTPStatus(refusal.status).phrase.encode()
    upgrade = b", upgrade" if refusal.status == 426 else b""
    return b"".join(
        (
            b"HTTP/1.1 %d %b\r\n" % (refusal.status, phrase),
            b"content-type: application/json\r\n",
            refusal.extra,
            lines,
            b"connection: close%b\r\ncontent-length: %d\r\n\r\n" % (upgrade, len(body)),
            b"" if bodyless else body,
        )
    )
