"""What one request head says of its sender, worked out once for all requests that repeat it."""

from tidegate.events.types import Dialect, TargetId
from tidegate.gateway.credentials import Principal, presented_key
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.headers import forwarded_headers, joined
from tidegate.gateway.outbound.head import render_headers
from tidegate.gateway.request_head import Fields, RequestHead
from tidegate.gateway.serving import ServedTarget, Serving
from tidegate.gateway.session import Session, session_in_headers, tenant_key
from tidegate.gateway.upstream import PreparedTarget


class Caller:
    """Who asks, under one config: valid only as long as that config is the one in force."""

    __slots__ = ("_calls", "_path", "_query", "data_key", "headers", "principal", "serving", "session")

    def __init__(self, serving: Serving, head: RequestHead, data_key: bytes) -> None:
        """Raises GatewayError for a missing, doubtful or unknown key."""
        self.serving = serving
        self.principal = _identify(serving, head.fields)
        self.headers = joined(head.fields)
        self._path = head.path
        self._query = head.query
        self.data_key = tenant_key(data_key, self.principal.tenant.id)
        self.session: Session | None = session_in_headers(self.headers, self.data_key)
        self._calls: dict[tuple[TargetId, Dialect], tuple[PreparedTarget, bytes]] = {}

    def call_of(self, target: ServedTarget, dialect: Dialect, path: str) -> tuple[PreparedTarget, bytes]:
        """Where a target is called for this client in a dialect, and the client's header lines that reach it.

        The query goes with the client's own path only. Raises TargetInvalid.
        """
        call = self._calls.get((target.config.id, dialect))
        if call is None:
            lines = render_headers(forwarded_headers(target.forwarded[dialect], self.headers))
            prepared = target.prepared[path]
            if self._query and path == self._path:
                prepared = prepared.with_query(self._query)
            call = self._calls[target.config.id, dialect] = prepared, lines
        return call


def _identify(serving: Serving, fields: Fields) -> Principal:
    key = presented_key(fields)
    if key is None:
        raise GatewayError("key_missing", "Send one API key: `Authorization: Bearer …` or `x-api-key`.")
    principal = serving.keys.find(key)
    if principal is None:
        raise GatewayError("key_unknown", "This API key is not known.")
    return principal
