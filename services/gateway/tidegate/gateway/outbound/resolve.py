"""Names to addresses, off the loop, remembered for a while. Says nothing about which may be called."""

import asyncio
import socket
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor

Lookup = Callable[[str, int], Sequence[str]]
"""Blocking: host and port to numeric addresses, best first. Raises OSError when there are none."""

_THREADS = 4


def system_lookup(host: str, port: int) -> list[str]:
    """What the operating system answers, in its order (RFC 6724), without repeats."""
    found = socket.getaddrinfo(host, port, type=socket.SOCK_STREAM, proto=socket.IPPROTO_TCP)
    return list(dict.fromkeys(str(entry[4][0]) for entry in found))


class ResolveCache:
    """Answers live `ttl_s`; failures are not kept; one lookup per name runs at a time.

    Own threads: a resolver that hangs must not take the loop's default executor with it.
    """

    def __init__(self, lookup: Lookup = system_lookup, *, ttl_s: float = 30.0) -> None:
        self._lookup = lookup
        self._ttl_s = ttl_s
        self._known: dict[tuple[str, int], tuple[float, tuple[str, ...]]] = {}
        self._running: dict[tuple[str, int], asyncio.Future[Sequence[str]]] = {}
        self._threads: ThreadPoolExecutor | None = None

    async def addresses(self, host: str, port: int) -> tuple[str, ...]:
        """Numeric addresses of `host`, or OSError. A cancelled caller leaves the others their answer."""
        loop = asyncio.get_running_loop()
        key = (host, port)
        known = self._known.get(key)
        if known is not None and loop.time() < known[0]:
            return known[1]
        running = self._running.get(key)
        if running is None:
            if self._threads is None:
                self._threads = ThreadPoolExecutor(_THREADS, thread_name_prefix="resolve")
            running = loop.run_in_executor(self._threads, self._lookup, host, port)
            self._running[key] = running
            running.add_done_callback(lambda done: self._finished(key, done, loop.time()))
        return tuple(await asyncio.shield(running))

    def close(self) -> None:
        """Start no further lookups; a hanging one is not waited for."""
        if self._threads is not None:
            self._threads.shutdown(wait=False, cancel_futures=True)
            self._threads = None

    def _finished(self, key: tuple[str, int], done: asyncio.Future[Sequence[str]], now: float) -> None:
        del self._running[key]
        # Asking for the exception also marks it as seen when every caller has gone.
        if not done.cancelled() and done.exception() is None:
            self._known[key] = (now + self._ttl_s, tuple(done.result()))
