"""The one outbound HTTP client of the gateway: an httpx transport, with a direct path for the hot route.

Nothing else in the gateway opens a socket towards the outside; the parts are in `outbound/`.
"""

import asyncio
import ssl
from collections.abc import Callable, Iterable
from math import inf

import httpx

from tidegate.events.config import Deadlines
from tidegate.gateway.outbound.connection import Connection
from tidegate.gateway.outbound.countdown import Countdown
from tidegate.gateway.outbound.dial import Dialer, tls_context
from tidegate.gateway.outbound.exchange import UpstreamExchange
from tidegate.gateway.outbound.faults import TargetInvalid, TotalTimeout, UpstreamError
from tidegate.gateway.outbound.framing import Header
from tidegate.gateway.outbound.head import RequestHead, without_ours
from tidegate.gateway.outbound.httpx_surface import ExchangeStream, as_httpx, deadlines_of, unsupported
from tidegate.gateway.outbound.origin import Origin, OriginPolicy, parse_target
from tidegate.gateway.outbound.pool import Pool, PoolStats
from tidegate.gateway.outbound.resolve import Lookup, ResolveCache, system_lookup
from tidegate.gateway.outbound.rest import Pieces

POLICY_EXTENSION = "tidegate.policy"
_DEFAULT_POLICY = OriginPolicy()
_DEFAULT_DEADLINES = Deadlines()


class PreparedTarget:
    """What is the same for every request to a target: checked, rendered, bound to its origin's pool.

    Its headers hold the credential, so it shows only the origin, and goes nowhere but to that origin.
    """

    __slots__ = ("head", "origin", "pool")

    def __init__(self, origin: Origin, head: RequestHead, pool: Pool[Connection]) -> None:
        self.origin = origin
        self.head = head
        self.pool = pool

    def with_query(self, query: bytes) -> "PreparedTarget":
        """The same target with a client's query behind its path. Raises TargetInvalid."""
        return PreparedTarget(self.origin, self.head.with_query(query), self.pool)

    def __repr__(self) -> str:
        return f"PreparedTarget({self.origin!r})"


class Upstream(httpx.AsyncBaseTransport):
    """Calls upstreams over pooled HTTP/1.1 connections. Belongs to the event loop that first uses it."""

    def __init__(
        self,
        policy: OriginPolicy = _DEFAULT_POLICY,
        *,
        connections_per_origin: int = 256,
        max_waiting: int = 4096,
        idle_s: float = 30.0,
        lookup: Lookup = system_lookup,
        dns_ttl_s: float = 30.0,
    ) -> None:
        """`policy` holds where `prepare` or the request extension `tidegate.policy` names no other."""
        self._policy = policy
        self._cap = connections_per_origin
        self._max_waiting = max_waiting
        self._idle_s = idle_s
        self._resolver = ResolveCache(lookup, ttl_s=dns_ttl_s)
        self._is_closed = False
        self._pools: dict[tuple[Origin, OriginPolicy], Pool[Connection]] = {}
        self._tls: dict[str | None, ssl.SSLContext] = {}

    def prepare(
        self,
        url: str | httpx.URL,
        headers: Iterable[Header] = (),
        *,
        method: str = "POST",
        policy: OriginPolicy | None = None,
    ) -> PreparedTarget:
        """Do once what need not be done per request. Opens nothing; reads the CA file.

        Raises:
            TargetInvalid: URL, header, method or CA file cannot be used; names which.
        """
        policy = self._policy if policy is None else policy
        origin, host, target = parse_target(url, policy)
        head = RequestHead(method, host, target, headers)
        return PreparedTarget(origin, head, self._pool(origin, policy))

    async def send(
        self,
        target: PreparedTarget,
        body: bytes | Pieces = b"",
        lines: bytes = b"",
        deadlines: Deadlines = _DEFAULT_DEADLINES,
        total_s: float = inf,
        on_sent: Callable[[], object] | None = None,
    ) -> UpstreamExchange:
        """Send one request and return once the response head is complete.

        A `body` in pieces goes out from where it lies, as the socket takes it. `lines` are header lines of this
        request alone, from `render_headers`. `deadlines` are in seconds: connect from this call, header and first
        token from the written request, idle between body pieces; `total_s` from this call to the end of the body.
        `on_sent` is called when the request was written. Cancelling frees all.

        Raises:
            UpstreamError: says in which phase, and whether a request byte was written.
        """
        rest: Pieces = ()
        if isinstance(body, bytes):
            request = target.head.render(body, lines)
        else:
            request, rest = target.head.render_head(sum(map(len, body)), lines), body
        del body
        loop = asyncio.get_running_loop()
        now = loop.time()
        total_at = now + total_s
        connection = target.pool.take_idle(now)
        if connection is None:
            connection = await _lease(target.pool, now + deadlines.connect_s, total_at)
            now = loop.time()
        exchange = UpstreamExchange(connection, Countdown(deadlines, now=now, total_at=total_at), loop)
        connection.start(exchange, request, is_head=target.head.is_head)
        if rest:
            connection.send_rest(rest)
        # While the answer is awaited, only the socket may hold on to what it has not sent.
        del request, rest
        try:
            if on_sent is not None:
                on_sent()
            await exchange.wait_head()
        except BaseException:
            exchange.cancel()
            raise
        return exchange

    async def handle_async_request(self, request: httpx.Request) -> httpx.Response:
        """The httpx interface over `send`. Redirects are for the caller; the environment is not consulted."""
        body = await request.aread()
        policy: OriginPolicy | None = request.extensions.get(POLICY_EXTENSION)
        try:
            headers = without_ours(request.headers.raw)
            target = self.prepare(request.url, headers, method=request.method, policy=policy)
        except TargetInvalid as exc:
            raise unsupported(exc, request) from exc
        try:
            exchange = await self.send(target, body, b"", deadlines_of(request.extensions))
        except UpstreamError as exc:
            raise as_httpx(exc, request) from exc
        return httpx.Response(
            exchange.status,
            headers=exchange.headers,
            stream=ExchangeStream(exchange, request),
            extensions={"http_version": b"HTTP/1.1"},
        )

    def stats(self) -> list[PoolStats]:
        """One record per origin and policy. At rest every `active` is 0; it must equal attempts in flight."""
        return [pool.stats() for pool in self._pools.values()]

    async def aclose(self) -> None:
        """End every call, refuse further ones; returns when all sockets are closed."""
        self._is_closed = True
        for pool in self._pools.values():
            await pool.close()
        self._resolver.close()

    def _pool(self, origin: Origin, policy: OriginPolicy) -> Pool[Connection]:
        pool = self._pools.get((origin, policy))
        if pool is None:
            if self._is_closed:
                raise TargetInvalid("the client is shut down")
            tls = self._tls_context(policy.ca_file) if origin.is_tls else None
            dialer = Dialer(origin, policy, tls, self._resolver)
            pool = _new_pool(origin, dialer, self._cap, self._max_waiting, self._idle_s)
            self._pools[(origin, policy)] = pool
        return pool

    def _tls_context(self, ca_file: str | None) -> ssl.SSLContext:
        context = self._tls.get(ca_file)
        if context is None:
            try:
                context = tls_context(ca_file)
            except OSError as exc:
                raise TargetInvalid(f"CA file cannot be used: {type(exc).__name__}") from exc
            self._tls[ca_file] = context
        return context


def _new_pool(origin: Origin, dialer: Dialer, cap: int, max_waiting: int, idle_s: float) -> Pool[Connection]:
    async def dial(until: float) -> Connection:
        loop = asyncio.get_running_loop()
        return await dialer.dial(lambda: Connection(pool, loop), until)

    name = f"{origin.scheme}://{origin.authority.decode('ascii')}"
    pool: Pool[Connection] = Pool(name, dial, cap=cap, max_waiting=max_waiting, idle_s=idle_s)
    return pool


async def _lease(pool: Pool[Connection], connect_at: float, total_at: float) -> Connection:
    try:
        return await pool.lease(min(connect_at, total_at))
    except UpstreamError as exc:
        if exc.timed_out and total_at <= connect_at:
            raise TotalTimeout("total deadline passed", exc.phase) from exc
        raise
