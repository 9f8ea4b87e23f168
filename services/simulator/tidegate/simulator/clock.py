"""The simulator's own time: the system's, or a virtual one that jumps from sleeper to sleeper."""

import asyncio
import heapq
import itertools
import time
from collections.abc import Awaitable
from typing import Protocol, TypeVar

T = TypeVar("T")

SETTLE_SPINS = 32


class Clock(Protocol):
    """Seconds since the Unix epoch, and waiting."""

    def now_s(self) -> float: ...

    async def sleep(self, duration_s: float) -> None: ...


class SystemClock:
    """Wall time at the start, carried on by the loop's monotonic time, so it never jumps."""

    def __init__(self) -> None:
        loop = asyncio.get_running_loop()
        self._loop = loop
        self._offset_s = time.time() - loop.time()  # noqa: TID251  this is the clock the simulator injects

    def now_s(self) -> float:
        return self._offset_s + self._loop.time()

    async def sleep(self, duration_s: float) -> None:
        await asyncio.sleep(max(duration_s, 0.0))


class VirtualClock:
    """Time that moves only by `advance` or `run`; sleepers wake in order of deadline, then of call.

    Between two wake-ups the event loop turns `SETTLE_SPINS` times, so that tasks woken by a sleeper can act
    before time moves on. Real sockets do not belong here.
    """

    def __init__(self, start_s: float = 1_800_000_000.0) -> None:
        self._now_s = start_s
        self._order = itertools.count()
        self._sleepers: list[tuple[float, int, asyncio.Future[None]]] = []

    def now_s(self) -> float:
        return self._now_s

    async def sleep(self, duration_s: float) -> None:
        if duration_s <= 0:
            return
        woken: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        heapq.heappush(self._sleepers, (self._now_s + duration_s, next(self._order), woken))
        await woken

    async def advance(self, duration_s: float) -> None:
        """Move time on by `duration_s` and wake everything that is due on the way."""
        end_s = self._now_s + duration_s
        await self._settle()
        while self._wake_next(end_s):
            await self._settle()
        self._now_s = end_s

    async def run(self, work: Awaitable[T]) -> T:
        """Finish `work`, jumping to the next sleeper whenever nothing else can move.

        Raises RuntimeError when `work` waits for something that no sleeper will bring.
        """
        task = asyncio.ensure_future(work)
        try:
            await self._settle()
            while not task.done():
                if not self._wake_next(float("inf")):
                    raise RuntimeError("virtual time stands still: the work waits, but nobody sleeps")
                await self._settle()
        finally:
            task.cancel()
        return task.result()

    def _wake_next(self, until_s: float) -> bool:
        while self._sleepers and self._sleepers[0][0] <= until_s:
            due_s, _, woken = heapq.heappop(self._sleepers)
            if not woken.done():
                self._now_s = max(self._now_s, due_s)
                woken.set_result(None)
                return True
        return False

    async def _settle(self) -> None:
        for _ in range(SETTLE_SPINS):
            await asyncio.sleep(0)
