"""A provider's port in each of its modes: serving, refusing, or one of two ways of stalling."""

import asyncio
import socket
import ssl
from collections.abc import Callable

from tidegate.simulator.config import Mode, Provider

_BACKLOG = 1024
_STALL_BACKLOG = 128
_FILL_TIMEOUT_S = 0.1
_FILL_LIMIT = 16


class Listener:
    """Owns the port for life; `port` is known once it is open, and stays when the mode changes."""

    def __init__(self, provider: Provider, factory: Callable[[], asyncio.Protocol]) -> None:
        self._host = provider.host
        self._factory = factory
        self._tls = _tls(provider)
        self._sockets: list[socket.socket] = []
        self._server: asyncio.Server | None = None
        self.port = provider.port
        self.scheme = "http" if self._tls is None else "https"

    async def open(self, mode: Mode) -> None:
        """Take the port in a mode. Raises OSError when it is taken already."""
        sock = socket.socket(socket.AF_INET6 if ":" in self._host else socket.AF_INET)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setblocking(False)
        try:
            sock.bind((self._host, self.port))
        except OSError:
            sock.close()
            raise
        self.port = sock.getsockname()[1]
        if mode == "normal":
            loop = asyncio.get_running_loop()
            self._server = await loop.create_server(self._factory, sock=sock, ssl=self._tls, backlog=_BACKLOG)
            return
        self._sockets.append(sock)
        if mode == "accept_stall":
            sock.listen(_STALL_BACKLOG)
        elif mode == "connect_stall":
            sock.listen(0)
            await self._fill()

    def close(self) -> None:
        """Give the port up; connections that were accepted go on."""
        if self._server is not None:
            self._server.close()
            self._server = None
        for sock in self._sockets:
            sock.close()
        self._sockets.clear()

    async def _fill(self) -> None:
        """Fill the accept queue with connections of our own until the kernel answers no more."""
        loop = asyncio.get_running_loop()
        for _ in range(_FILL_LIMIT):
            filler = socket.socket(self._sockets[0].family)
            filler.setblocking(False)
            self._sockets.append(filler)
            try:
                async with asyncio.timeout(_FILL_TIMEOUT_S):
                    await loop.sock_connect(filler, (self._host, self.port))
            except TimeoutError:
                return


def _tls(provider: Provider) -> ssl.SSLContext | None:
    if provider.tls_cert is None or provider.tls_key is None:
        return None
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(provider.tls_cert, provider.tls_key)
    context.set_alpn_protocols(["http/1.1"])
    return context
