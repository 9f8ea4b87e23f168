"""The same engines behind an httpx transport: no sockets, so virtual time works."""

from collections.abc import AsyncGenerator, AsyncIterator, Mapping

import httpx

from tidegate.simulator.actions import Action, Body, Close, End, Head, Raw, Reset, SimRequest
from tidegate.simulator.clock import Clock
from tidegate.simulator.engine import Engine

_FOREVER_S = 86_400.0


class InProcessTransport(httpx.AsyncBaseTransport):
    """Routes by host name, `http://<provider id>/v1/…`; modes and faults become httpx's exceptions."""

    def __init__(self, engines: Mapping[str, Engine], clock: Clock) -> None:
        self._engines = engines
        self._clock = clock

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """One request to its provider. Raises ConnectError, ConnectTimeout, ReadTimeout, ReadError, …"""
        engine = self._engines.get(request.url.host)
        if engine is None or engine.mode == "refuse":
            raise httpx.ConnectError("connection refused", request=request)
        if engine.mode != "normal":
            await self._stall(engine, request)
        body = await request.aread()
        headers = [(name.lower(), value) for name, value in request.headers.raw]
        path, query = request.url.path, request.url.query.decode()
        actions = engine.handle(SimRequest(request.method, path, query, headers, body))
        first = await anext(actions, None)
        if isinstance(first, Head):
            return httpx.Response(
                first.status, headers=_framed(first), stream=_Stream(actions, request), request=request
            )
        await actions.aclose()
        raise _broken(first, request)

    async def _stall(self, engine: Engine, request: httpx.Request) -> None:
        limits: dict[str, float | None] = request.extensions.get("timeout", {})
        connecting = engine.mode == "connect_stall"
        await self._clock.sleep(limits.get("connect" if connecting else "read") or _FOREVER_S)
        if connecting:
            raise httpx.ConnectTimeout("the connection never completed", request=request)
        raise httpx.ReadTimeout("nothing was ever read", request=request)


class _Stream(httpx.AsyncByteStream):
    """The rest of the actions as body bytes; closing it early is a client that leaves."""

    def __init__(self, actions: AsyncGenerator[Action, None], request: httpx.Request) -> None:
        self._actions = actions
        self._request = request

    async def __aiter__(self) -> AsyncIterator[bytes]:
        async for action in self._actions:
            if isinstance(action, End):
                # The engine settles what is left after its last action, as it does behind a socket.
                await self.aclose()
                return
            if not isinstance(action, Body):
                raise _broken(action, self._request)
            yield action.data
        raise httpx.RemoteProtocolError("the body is incomplete", request=self._request)

    async def aclose(self) -> None:
        """End the request; harmless when it is over."""
        await self._actions.aclose()


def _framed(head: Head) -> list[tuple[bytes, bytes]]:
    framing = (
        (b"transfer-encoding", b"chunked")
        if head.length is None
        else (b"content-length", b"%d" % head.length)
    )
    return [*head.headers, framing]


def _broken(action: Action | None, request: httpx.Request) -> httpx.TransportError:
    match action:
        case Reset():
            return httpx.ReadError("connection reset by peer", request=request)
        case Close() | None:
            return httpx.RemoteProtocolError("server closed the connection", request=request)
        case Raw():
            return httpx.RemoteProtocolError("not an HTTP answer", request=request)
        case _:
            return httpx.RemoteProtocolError(f"unexpected {type(action).__name__}", request=request)
