"""How an upstream call can fail: a closed family, each with its phase and whether request bytes left.

Messages name what broke, never the URL, a header or a body: they may be logged and recorded.
"""

from tidegate.events.errors import Refused, Unavailable
from tidegate.events.signals import Phase


class TargetInvalid(Refused):
    """The URL, a header or the transport settings of a target cannot be used as configured."""

    code = "target_invalid"


class UpstreamError(Unavailable):
    """Root of the family.

    `phase` is where the call was; `request_bytes_written` is False only if provably no byte of the request
    reached the socket (the attempt is then settled with basis `none`); `timed_out` marks our deadline.
    """

    code = "upstream_failed"

    timed_out = False

    def __init__(
        self, what: str, phase: Phase, *, request_bytes_written: bool = False, timed_out: bool | None = None
    ) -> None:
        super().__init__(what)
        self.what = what
        self.phase: Phase = phase
        self.request_bytes_written = request_bytes_written
        if timed_out is not None:
            self.timed_out = timed_out


class ResolveFailed(UpstreamError):
    """The host name gave no address, or not within the connect deadline."""

    code = "upstream_resolve_failed"


class EgressRefused(UpstreamError):
    """Every address of the host is one we may not call."""

    code = "upstream_egress_refused"


class ConnectFailed(UpstreamError):
    """No address took the connection, or the proxy refused the tunnel."""

    code = "upstream_connect_failed"


class TlsFailed(UpstreamError):
    """The handshake failed: certificate, host name, protocol, or the deadline."""

    code = "upstream_tls_failed"


class PoolExhausted(UpstreamError):
    """We are at a limit of our own: no connection came free within the connect deadline, too many calls were waiting
    already, or this machine has no socket left. Says nothing of the target."""

    code = "upstream_pool_exhausted"


class HeaderTimeout(UpstreamError):
    """No complete response head within the header deadline."""

    code = "upstream_header_timeout"
    timed_out = True


class FirstTokenTimeout(UpstreamError):
    """No first content within its deadline."""

    code = "upstream_first_token_timeout"
    timed_out = True


class IdleTimeout(UpstreamError):
    """The body stood still for longer than the idle deadline."""

    code = "upstream_idle_timeout"
    timed_out = True


class TotalTimeout(UpstreamError):
    """The whole call took too long; nothing is said about the target."""

    code = "upstream_total_timeout"
    timed_out = True


class ConnectionLost(UpstreamError):
    """Reset, or end of stream before the response was complete."""

    code = "upstream_connection_lost"


class ConnectionStale(ConnectionLost):
    """A kept connection ended without a byte of an answer: its server gave it up as we wrote. It may have read the
    request, so only a new attempt may send it again; of the target it says nothing."""

    code = "upstream_connection_stale"


class ProtocolFault(UpstreamError):
    """The peer broke HTTP/1.1, or a limit of ours."""

    code = "upstream_protocol_fault"


class ExchangeCancelled(UpstreamError):
    """We gave the call up ourselves; feeds no breaker."""

    code = "upstream_cancelled"
