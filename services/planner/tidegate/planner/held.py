"""What a worker holds of a target or a pool until the snapshots include it: refusals, attempts, own uses. Pure."""

from collections import deque
from collections.abc import Sequence
from typing import NamedTuple

from tidegate.events.decision import WindowUse
from tidegate.events.types import PoolId, WindowId

MAX_PENDING = 512
"""Settled uses kept apart per pool; beyond it the two oldest are held together, until both are covered."""

JUMP_NS = 1_000_000_000
"""Clocks that drift apart by less are one."""

Period = tuple[WindowId, int]


class Closed(NamedTuple):
    """A refusal of our own: until when, the event to be covered, and whether its end is but a guess."""

    until_ns: int
    seq: int
    is_guess: bool


class _Held:
    """What is held against a target or a pool, if anything."""

    __slots__ = ("closed",)

    def __init__(self) -> None:
        self.closed: Closed | None = None

    def close(self, until_ns: int, seq: int, *, is_guess: bool = False) -> None:
        known = self.closed
        if known is not None:
            until_ns, seq = max(known.until_ns, until_ns), max(known.seq, seq)
            is_guess = is_guess and known.is_guess
        self.closed = Closed(until_ns, seq, is_guess)

    def cover(self, seq: int) -> None:
        if self.closed is not None and self.closed.seq <= seq:
            self.closed = None

    def closed_until_ns(self, now_ns: int) -> int | None:
        return None if self.closed is None or self.closed.until_ns <= now_ns else self.closed.until_ns


class Believed(NamedTuple):
    """A refusal in the snapshots: its end as they have it, and by the monotonic clock."""

    until_ns: int
    ends_ns: int

    def wall_end_ns(self, now_ns: int, mono_ns: int) -> int | None:
        """Its end by a wall clock that has been set back meanwhile; None: the snapshots' end will do."""
        ends_ns = now_ns + self.ends_ns - mono_ns
        return ends_ns if ends_ns < self.until_ns - JUMP_NS else None


class HeldTarget(_Held):
    """A target with attempts in flight, a refusal, or failures since its last success."""

    __slots__ = ("in_flight", "pool", "tried_ns")

    def __init__(self, pool: PoolId) -> None:
        super().__init__()
        self.pool = pool
        self.in_flight = 0
        self.tried_ns: int | None = None
        """When it was last tried since it fails."""

    @property
    def is_idle(self) -> bool:
        return not self.in_flight and self.closed is None and self.tried_ns is None

    @property
    def tried_on_a_guess_ns(self) -> int | None:
        return self.tried_ns if self.closed is None or self.closed.is_guess else None


class HeldPool(_Held):
    """A pool with a refusal, or units per window period: of open attempts, and of settled ones to be covered.

    Each unit is shown `shares` times: once for every worker that may take as much meanwhile.
    """

    __slots__ = ("_pending", "_shares", "_units", "_uses")

    def __init__(self, shares: int) -> None:
        super().__init__()
        self._shares = shares
        self._pending: deque[tuple[int, Sequence[WindowUse]]] = deque()
        self._units: dict[Period, int] = {}
        self._uses: tuple[WindowUse, ...] | None = ()

    @property
    def uses(self) -> tuple[WindowUse, ...]:
        """Units by window period; made when a decision reads them, attempts change them more often."""
        uses = self._uses
        if uses is None:
            shares = self._shares
            uses = tuple([WindowUse(window, start, n * shares) for (window, start), n in self._units.items()])
            self._uses = uses
        return uses

    @property
    def is_idle(self) -> bool:
        return not self._units and not self._pending and self.closed is None

    def add(self, uses: Sequence[WindowUse]) -> None:
        for use in uses:
            period = use.window, use.period_start_ns
            self._units[period] = self._units.get(period, 0) + use.units
        self._uses = None

    def remove(self, uses: Sequence[WindowUse]) -> None:
        for use in uses:
            period = use.window, use.period_start_ns
            left = self._units.get(period, 0) - use.units
            if left > 0:
                self._units[period] = left
            else:
                self._units.pop(period, None)
        self._uses = None

    def settle(self, reserved: Sequence[WindowUse], uses: Sequence[WindowUse], seq: int) -> None:
        self.remove(reserved)
        if not uses:
            return
        self.add(uses)
        self._pending.append((seq, uses))
        if len(self._pending) > MAX_PENDING:
            first, second = self._pending.popleft(), self._pending.popleft()
            self._pending.appendleft((max(first[0], second[0]), _merged([*first[1], *second[1]])))

    def cover(self, seq: int) -> None:
        super().cover(seq)
        while self._pending and self._pending[0][0] <= seq:
            self.remove(self._pending.popleft()[1])


def _merged(uses: Sequence[WindowUse]) -> list[WindowUse]:
    units: dict[Period, int] = {}
    for use in uses:
        period = use.window, use.period_start_ns
        units[period] = units.get(period, 0) + use.units
    return [WindowUse(window, start, n) for (window, start), n in units.items()]
