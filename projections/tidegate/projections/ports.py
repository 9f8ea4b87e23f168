"""What the projector needs from outside: filled by the runtime."""

from collections.abc import Callable
from pathlib import Path
from typing import Protocol

from tidegate.events.errors import LogCorrupt
from tidegate.events.log.port import Record
from tidegate.projections.batch import Halt

Watch = Callable[[int, int], None]
"""Told how many records have been folded, and of how many."""


def unwatched(_done: int, _total: int) -> None:
    """Nobody looks on."""


class DeadLetters(Protocol):
    """Where records that are no envelope go."""

    async def __call__(self, record: Record, reason: str, /) -> None:
        """Keep the record's coordinates and hash. May be called twice for one record (after a crash)."""
        ...


class Alarm(Protocol):
    """Who hears of what an operator must know."""

    def halted(self, halt: Halt) -> None:
        """A partition stopped at a record that cannot be understood or stored; it stays so until a restart."""
        ...

    def damaged(self, error: LogCorrupt) -> None:
        """The log or its archive is damaged: nothing is folded until it can be read again."""
        ...

    def started_over(self, aside: Path, reason: str) -> None:
        """The database could not be used and is built anew from the log; the old file is at `aside`."""
        ...
