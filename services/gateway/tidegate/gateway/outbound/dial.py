"""Opens connections: resolve, check, connect to the checked address, tunnel, handshake; a phase each."""

import asyncio
import errno
import socket
import ssl
from collections.abc import Callable
from dataclasses import dataclass
from math import isinf

from tidegate.events.signals import Phase
from tidegate.gateway.outbound import egress
from tidegate.gateway.outbound.connection import Connection
from tidegate.gateway.outbound.faults import (
    ConnectFailed,
    EgressRefused,
    PoolExhausted,
    ResolveFailed,
    TlsFailed,
    UpstreamError,
)
from tidegate.gateway.outbound.origin import Origin, OriginPolicy, address_refusal
from tidegate.gateway.outbound.resolve import ResolveCache
from tidegate.gateway.outbound.tunnel import Proxy, TunnelRefused, TunnelReply, connect_request

_MAX_ADDRESSES = 4
_REPLY_CHUNK_BYTES = 4096
_TIMED_OUT: dict[Phase, type[UpstreamError]] = {"dns": ResolveFailed, "tls": TlsFailed}


@dataclass(slots=True)
class _Progress:
    """Where a dial is, for the error when its time is up."""

    phase: Phase = "dns"


_LOCAL_LIMITS = {errno.EMFILE, errno.ENFILE, errno.ENOBUFS}
_KEEPALIVE = {
    getattr(socket, name): value
    for name, value in {"TCP_KEEPIDLE": 30, "TCP_KEEPINTVL": 10, "TCP_KEEPCNT": 3}.items()
    if hasattr(socket, name)
}
"""A peer that vanished is noticed within a minute, also where an answer may be awaited for much longer."""


class Dialer:
    """Opens connections to one origin under one policy. `tls` is None for plain http."""

    def __init__(
        self, origin: Origin, policy: OriginPolicy, tls: ssl.SSLContext | None, resolver: ResolveCache
    ) -> None:
        self._origin = origin
        self._policy = policy
        self._tls = tls
        self._resolver = resolver

    async def dial(self, make: Callable[[], Connection], until: float) -> Connection:
        """A connected, verified connection made by `make`, before `until` (loop time).

        Raises:
            ResolveFailed, EgressRefused, ConnectFailed, TlsFailed: none has written a request byte.
        """
        progress = _Progress()
        try:
            # A new connection costs far more than the timeout block; reused ones never come here.
            async with asyncio.timeout_at(None if isinf(until) else until):
                return await self._dial(make, until, progress)
        except TimeoutError as exc:
            kind = _TIMED_OUT.get(progress.phase, ConnectFailed)
            raise kind("connect deadline passed", progress.phase, timed_out=True) from exc

    async def _dial(self, make: Callable[[], Connection], until: float, progress: _Progress) -> Connection:
        addresses = await self._checked_addresses()
        progress.phase = "connect"
        proxy = self._policy.proxy
        sock = await _connect_any(addresses, proxy.port if proxy else self._origin.port, until)
        try:
            if proxy is not None:
                await self._open_tunnel(sock, proxy)
            progress.phase = "tls" if self._tls is not None else "connect"
        except BaseException:
            sock.close()
            raise
        return await self._attach(sock, make)

    async def _checked_addresses(self) -> list[str]:
        """Addresses that may be called, checked on every dial: a cached or changed answer is no permission.

        With a proxy it is the proxy's address that we call. The origin's name is then the proxy's to resolve,
        but a numeric origin is still ours to refuse.
        """
        proxy = self._policy.proxy
        if proxy is None:
            host, port = self._origin.host, self._origin.port
        else:
            host, port = proxy.host, proxy.port
            if egress.literal(self._origin.host) is not None:
                self._refuse_unless_any([self._origin.host])
        literal = egress.literal(host)
        if literal is not None:
            found: tuple[str, ...] = (literal,)
        else:
            try:
                found = await self._resolver.addresses(host, port)
            except (OSError, UnicodeError) as exc:
                raise ResolveFailed("host name did not resolve", "dns") from exc
            if not found:
                raise ResolveFailed("host name has no address", "dns")
        if proxy is None:
            return self._refuse_unless_any(found)
        refusals = [egress.address_refusal(found_, allow_private=proxy.allow_private) for found_ in found]
        return _allowed(found, refusals)

    def _refuse_unless_any(self, found: list[str] | tuple[str, ...]) -> list[str]:
        return _allowed(found, [address_refusal(address, self._origin, self._policy) for address in found])

    async def _open_tunnel(self, sock: socket.socket, proxy: Proxy) -> None:
        loop = asyncio.get_running_loop()
        reply = TunnelReply()
        try:
            await loop.sock_sendall(sock, connect_request(self._origin.authority, proxy.authorization))
            while not reply.feed(await loop.sock_recv(sock, _REPLY_CHUNK_BYTES)):
                pass
        except TunnelRefused as exc:
            raise ConnectFailed(str(exc), "connect") from exc
        except OSError as exc:
            raise ConnectFailed(f"proxy: {type(exc).__name__}", "connect") from exc

    async def _attach(self, sock: socket.socket, make: Callable[[], Connection]) -> Connection:
        """Hand the socket to the loop, which owns and closes it from here on."""
        loop = asyncio.get_running_loop()
        name = None if self._tls is None else self._origin.host
        try:
            _, connection = await loop.create_connection(make, sock=sock, ssl=self._tls, server_hostname=name)
        except ssl.SSLCertVerificationError as exc:
            raise TlsFailed(f"certificate: {exc.verify_message}", "tls") from exc
        except ssl.SSLError as exc:
            raise TlsFailed(f"handshake: {exc.reason or 'failed'}", "tls") from exc
        except OSError as exc:
            kind = ConnectFailed if self._tls is None else TlsFailed
            raise kind(f"handshake: {type(exc).__name__}", "connect" if self._tls is None else "tls") from exc
        return connection


def tls_context(ca_file: str | None) -> ssl.SSLContext:
    """Verifying, host name checked, TLS 1.2 or newer, http/1.1 by ALPN; `ca_file` replaces the system's CAs.

    Not `ssl.create_default_context`: that writes session keys to a file named by the environment.
    """
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.minimum_version = ssl.TLSVersion.TLSv1_2
    context.set_alpn_protocols(["http/1.1"])
    if ca_file is None:
        context.load_default_certs()
    else:
        context.load_verify_locations(cafile=ca_file)
    return context


def _allowed(found: list[str] | tuple[str, ...], refusals: list[str | None]) -> list[str]:
    allowed = [address for address, refusal in zip(found, refusals, strict=True) if refusal is None]
    if not allowed:
        raise EgressRefused(f"address refused: {refusals[0]}", "dns")
    return allowed[:_MAX_ADDRESSES]


async def _connect_any(addresses: list[str], port: int, until: float) -> socket.socket:
    """The first address that takes the connection. Each gets a fair share of the time that is left, so that
    a black hole does not eat the turn of its successor."""
    loop = asyncio.get_running_loop()
    last: OSError | None = None
    for tried, address in enumerate(addresses):
        share_s = (until - loop.time()) / (len(addresses) - tried)
        is_last = tried == len(addresses) - 1
        try:
            async with asyncio.timeout(None if is_last or isinf(share_s) else share_s):
                return await _connect(address, port)
        except OSError as exc:  # TimeoutError is one
            last = exc
    if last is not None and last.errno in _LOCAL_LIMITS:
        raise PoolExhausted(
            f"this machine has no socket left ({errno.errorcode[last.errno]})", "connect"
        ) from last
    raise ConnectFailed(f"no address took the connection: {type(last).__name__}", "connect") from last


async def _connect(address: str, port: int) -> socket.socket:
    family = socket.AF_INET6 if ":" in address else socket.AF_INET
    sock = socket.socket(family, socket.SOCK_STREAM)
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        for option, value in _KEEPALIVE.items():
            sock.setsockopt(socket.IPPROTO_TCP, option, value)
        await asyncio.get_running_loop().sock_connect(sock, (address, port))
    except BaseException:
        sock.close()
        raise
    return sock
