"""Feeds signals to an estimator that is killed again and again."""

from __future__ import annotations

import asyncio
import os
import random
import sys
from collections.abc import Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from support.estimator_process import SUBJECTS
from support.killing import TESTS
from support.signals import records
from tidegate.events.log.port import EventLog, Outgoing

SLICE = 400


class Estimator:
    """One life of an estimator process; it is killed at the end of the block, whatever its state."""

    def __init__(self, *arguments: str | Path) -> None:
        self._arguments = arguments
        self.process: asyncio.subprocess.Process

    async def __aenter__(self) -> Self:
        self.process = await asyncio.create_subprocess_exec(
            *(sys.executable, TESTS / "support" / "estimator_process.py", *self._arguments),
            stdout=asyncio.subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": str(TESTS)},
        )
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.returncode is None:
            self.process.kill()
        await self.process.communicate()

    async def report(self) -> bytes:
        """The next line it says; fails when it ended by itself."""
        assert self.process.stdout is not None
        async with asyncio.timeout(90):
            line = await self.process.stdout.readline()
        assert line.endswith(b"\n"), f"the estimator ended by itself: {await self.process.wait()}"
        return line

    async def applied(self, count: int) -> None:
        """Until it has folded so many in this life."""
        while int((await self.report()).split()[1]) < count:
            pass


async def killed_while_fed(
    log: EventLog, arguments: Sequence[str | Path], *, events: int, kills: int, seed: int
) -> list[Outgoing]:
    """Append `events` signals in `kills` + 1 parts, each to an estimator that is killed while it folds the
    part; the last one is left for the caller. Returns what was appended."""
    rng = random.Random(seed)
    written = records(events, pools=SUBJECTS, seed=seed)
    part = events // (kills + 1)
    for life in range(kills):
        async with Estimator(*arguments) as estimator:
            feeding = asyncio.ensure_future(append(log, written[life * part : (life + 1) * part]))
            # What was left over from the last life comes first, so each life has this much to fold.
            await estimator.applied(rng.randrange(1, part // 2))
            await asyncio.sleep(rng.random() * 0.05)  # the moment of death is to be arbitrary
            estimator.process.kill()
            await feeding
    await append(log, written[kills * part :])
    return written


async def append(log: EventLog, signals: Sequence[Outgoing], pause_s: float = 0.002) -> None:
    for first in range(0, len(signals), SLICE):
        await log.append(signals[first : first + SLICE])
        await asyncio.sleep(pause_s)  # in pieces, as a relay does: a commit meets a log that grows
