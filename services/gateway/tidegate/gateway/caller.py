"""What one request head says of its sender, worked out once for all requests that repeat it."""

from tidegate.events.types import TargetId
from tidegate.gateway.credentials import Principal, presented_key
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.headers import forwarded_headers
from tidegate.gateway.outbound.head import render_headers
from tidegate.gateway.request_head import Fields
from tidegate.gateway.serving import ServedTarget, Serving
from tidegate.gateway.session import Session, session_in_headers, tenant_key


class Caller:
    """Who asks, under one config: valid only as long as that config is the one in force."""

    __slots__ = ("_lines", "data_key", "headers", "principal", "serving", "session")

    def __init__(self, serving: Serving, fields: Fields, data_key: bytes) -> None:
        """Raises GatewayError for a missing, doubtful or unknown key."""
        self.serving = serving
        self.principal = _identify(serving, fields)
        self.headers = dict(fields)
        self.data_key = tenant_key(data_key, self.principal.tenant.id)
        self.session: Session | None = session_in_headers(self.headers, self.data_key)
        self._lines: dict[TargetId, bytes] = {}

    def lines_for(self, target: ServedTarget) -> bytes:
        """Header lines of the client that reach a target. Raises TargetInvalid."""
        lines = self._lines.get(target.config.id)
        if lines is None:
            lines = render_headers(forwarded_headers(target.forwarded, self.headers))
            self._lines[target.config.id] = lines
        return lines


def _identify(serving: Serving, fields: Fields) -> Principal:
    key = presented_key(fields)
    if key is None:
        raise GatewayError("key_missing", "Send one API key: `Authorization: Bearer …` or `x-api-key`.")
    principal = serving.keys.find(key)
    if principal is None:
        raise GatewayError("key_unknown", "This API key is not known.")
    return principal
