"""Life of the tenant listener: start on bound sockets, drain, wait, close. Signals belong to the runtime."""

import asyncio
import socket
from collections.abc import Callable
from email.utils import formatdate

from uvicorn.config import Config

from tidegate.gateway.exchange import App, Direct, Reason
from tidegate.gateway.server import GatewayProtocol, ListenerState
from tidegate.gateway.server_limits import ServerLimits


class GatewayServer:
    """One application on a set of bound sockets, in the running event loop."""

    def __init__(
        self,
        app: App,
        limits: ServerLimits,
        id_line: Callable[[], bytes] = bytes,
        direct: Direct | None = None,
    ) -> None:
        """`id_line` makes the header line that names a request which the listener refuses by itself; `direct` is
        asked first for each request."""
        self._limits = limits
        self._app = app
        self._direct = direct
        self._state = ListenerState(limits, id_line)
        self._listeners: list[asyncio.Server] = []
        self._date_timer: asyncio.TimerHandle | None = None
        self._config = Config(
            app,
            interface="asgi3",
            http=GatewayProtocol,
            ws="none",
            lifespan="off",
            log_config=None,
            access_log=False,
            proxy_headers=False,
            server_header=False,
        )
        self._config.load()

    @property
    def active_requests(self) -> int:
        """Requests whose application has not ended."""
        return len(self._state.exchanges)

    @property
    def open_connections(self) -> int:
        return len(self._state.connections)

    @property
    def total_requests(self) -> int:
        """Requests answered to the end."""
        return self._state.total_requests

    async def start(self, sockets: list[socket.socket]) -> None:
        """Accept on bound TCP sockets (they are closed by `stop_accepting`)."""
        loop = asyncio.get_running_loop()
        self._tick()
        for listening in sockets:
            server = await loop.create_server(
                self.new_connection, sock=listening, backlog=self._config.backlog
            )
            self._listeners.append(server)

    def new_connection(self) -> GatewayProtocol:
        """The protocol of one accepted connection."""
        loop = asyncio.get_running_loop()
        return GatewayProtocol(self._config, self._state, self._app, self._direct, self._limits, loop)

    def announce_drain(self) -> None:
        """From now on every answer ends its connection, so that clients move elsewhere."""
        self._state.draining = True

    def stop_accepting(self) -> None:
        """Close the listening sockets and the idle connections; running requests go on."""
        self.announce_drain()
        self._state.closing = True
        for server in self._listeners:
            server.close()
        self._listeners.clear()
        for connection in list(self._state.connections):
            connection.shutdown()

    async def wait_idle(self, grace_s: float) -> int:
        """Wait until every request has ended and every answer was taken, at most `grace_s` seconds.

        Returns how many requests still run. Call `stop_accepting` first: idle connections count.
        """
        state = self._state
        if not state.is_quiet():
            state.quiet = asyncio.Event()
            try:
                async with asyncio.timeout(grace_s):
                    await state.quiet.wait()
            except TimeoutError:
                pass
            finally:
                state.quiet = None
        return len(state.exchanges)

    def cancel_active(self, reason: Reason = "draining") -> int:
        """Run the cancel hook of every running request: it may still end its answer. Returns how many."""
        exchanges = list(self._state.exchanges)
        for exchange in exchanges:
            exchange.cancel(reason)
        return len(exchanges)

    def close_all(self) -> None:
        """Cut every connection and cancel every request now."""
        self.stop_accepting()
        for connection in list(self._state.connections):
            if isinstance(connection, GatewayProtocol):
                connection.abort("shutdown")
        for exchange in list(self._state.exchanges):
            if exchange.task is not None:
                exchange.task.cancel()
        if self._date_timer is not None:
            self._date_timer.cancel()

    def _tick(self) -> None:
        self._state.date_line = b"date: %b\r\n" % formatdate(usegmt=True).encode()
        self._date_timer = asyncio.get_running_loop().call_later(1.0, self._tick)


async def serve(
    app: App,
    sockets: list[socket.socket],
    limits: ServerLimits,
    *,
    stop: asyncio.Event,
    id_line: Callable[[], bytes] = bytes,
    direct: Direct | None = None,
    on_started: Callable[[GatewayServer], None] | None = None,
) -> int:
    """Serve until `stop` is set, then drain: stop accepting, wait ≤ `drain_grace_s`, cancel what is left,
    wait ≤ `settle_grace_s` for it to settle, cut the rest. Cancelling this coroutine cuts all at once.

    Returns how many requests had to be cut. Readiness and the drain delay come before `stop`
    (`announce_drain` during the delay).
    """
    server = GatewayServer(app, limits, id_line, direct)
    try:
        await server.start(sockets)
        if on_started is not None:
            on_started(server)
        await stop.wait()
        server.stop_accepting()
        if await server.wait_idle(limits.drain_grace_s) and server.cancel_active():
            await server.wait_idle(limits.settle_grace_s)
        return server.active_requests
    finally:
        server.close_all()
