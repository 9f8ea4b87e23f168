"""Time as an argument: the only module that reads the system clock."""

import time
from typing import Protocol


class Clock(Protocol):
    """Source of wall and monotonic time, both in nanoseconds."""

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch; may jump."""
        ...

    def mono_ns(self) -> int:
        """Nanoseconds of a clock that never goes back; only differences mean anything."""
        ...


class SystemClock:
    """The machine's clocks. The system's own functions, not calls of them: a request reads them often."""

    __slots__ = ()

    wall_ns = staticmethod(time.time_ns)  # noqa: TID251 - this is the one place
    mono_ns = staticmethod(time.monotonic_ns)


class ManualClock:
    """A clock that moves only when told: for tests and simulations."""

    __slots__ = ("_mono_ns", "_wall_ns")

    def __init__(self, wall_ns: int = 1_800_000_000_000_000_000, mono_ns: int = 0) -> None:
        self._wall_ns = wall_ns
        self._mono_ns = mono_ns

    def wall_ns(self) -> int:
        """Nanoseconds since the Unix epoch."""
        return self._wall_ns

    def mono_ns(self) -> int:
        """Monotonic nanoseconds."""
        return self._mono_ns

    def advance_ns(self, by_ns: int) -> None:
        """Move both clocks forward by `by_ns` (≥ 0)."""
        if by_ns < 0:
            raise ValueError(f"a clock cannot go back: advance_ns({by_ns})")
        self._wall_ns += by_ns
        self._mono_ns += by_ns

    def jump_wall_ns(self, by_ns: int) -> None:
        """Jump the wall clock only, as an operator or NTP would."""
        self._wall_ns += by_ns
