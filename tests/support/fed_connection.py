"""One gateway connection fed by hand: the protocol over a fake transport, without sockets."""

import asyncio

from support.fake_transport import FakeTransport
from tidegate.gateway.exchange import App
from tidegate.gateway.listener import GatewayServer
from tidegate.gateway.server import GatewayProtocol
from tidegate.gateway.server_limits import ServerLimits


class FedConnection:
    """`feed` what the client sends, look at `transport` for what it would receive."""

    def __init__(self, app: App, limits: ServerLimits | None = None, *, holds_back: bool = False) -> None:
        self.server = GatewayServer(app, limits or ServerLimits())
        self.protocol: GatewayProtocol = self.server.new_connection()
        self.transport = FakeTransport(self.protocol, holds_back=holds_back)
        self.protocol.connection_made(self.transport)

    def feed(self, data: bytes) -> None:
        self.protocol.data_received(data)

    async def settle(self) -> bytes:
        """Let everything that is ready run; returns what was written so far."""
        for _ in range(20):
            await asyncio.sleep(0)
        return self.transport.written

    @property
    def status(self) -> int:
        """Status of the first answer; 0 when nothing was written."""
        return int(self.transport.written[9:12] or b"0")
