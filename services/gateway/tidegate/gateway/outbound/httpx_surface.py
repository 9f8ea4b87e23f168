"""The httpx side of the transport: deadlines in, body stream and exceptions out."""

from collections.abc import AsyncIterator, Mapping
from math import inf
from typing import Any

import httpx

from tidegate.events.config import Deadlines
from tidegate.gateway.outbound.exchange import UpstreamExchange
from tidegate.gateway.outbound.faults import (
    ConnectFailed,
    ConnectionLost,
    EgressRefused,
    PoolExhausted,
    ProtocolFault,
    ResolveFailed,
    TargetInvalid,
    TlsFailed,
    UpstreamError,
)

_DIALING = (ResolveFailed, EgressRefused, ConnectFailed, TlsFailed)
_BEFORE_REQUEST = frozenset({"dns", "connect", "tls"})


class ExchangeStream(httpx.AsyncByteStream):
    """The body of an exchange as httpx reads it. Closing it early cancels the exchange."""

    def __init__(self, exchange: UpstreamExchange, request: httpx.Request) -> None:
        self._exchange = exchange
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        try:
            while chunk := await self._exchange.read():
                yield chunk
        except UpstreamError as exc:
            raise as_httpx(exc, self._request) from exc

    async def aclose(self) -> None:
        """Give up what was not read."""
        self._exchange.cancel()


def as_httpx(error: UpstreamError, request: httpx.Request) -> httpx.TransportError:
    """The exception that an httpx user expects in place of `error`."""
    return _kind(error)(str(error), request=request)


def unsupported(error: TargetInvalid, request: httpx.Request) -> httpx.TransportError:
    """The same for a request that must not be sent at all."""
    return httpx.UnsupportedProtocol(str(error), request=request)


def deadlines_of(extensions: Mapping[str, Any]) -> Deadlines:
    """httpx's timeouts in our words: its `read` bounds the wait for the head and each gap in the body."""
    timeout: Mapping[str, float | None] = extensions.get("timeout", {})
    connect_s = timeout.get("connect")
    read_s = timeout.get("read")
    return Deadlines(
        connect_s=inf if connect_s is None else connect_s,
        header_s=inf if read_s is None else read_s,
        first_token_s=inf,
        idle_s=inf if read_s is None else read_s,
    )


def _kind(error: UpstreamError) -> type[httpx.TransportError]:
    if isinstance(error, PoolExhausted):
        return httpx.PoolTimeout
    if isinstance(error, _DIALING) or (error.timed_out and error.phase in _BEFORE_REQUEST):
        return httpx.ConnectTimeout if error.timed_out else httpx.ConnectError
    if error.timed_out:
        return httpx.ReadTimeout
    if isinstance(error, ProtocolFault):
        return httpx.RemoteProtocolError
    is_send = isinstance(error, ConnectionLost) and error.phase == "send"
    return httpx.WriteError if is_send else httpx.ReadError
