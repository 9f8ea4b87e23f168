"""What one worker knows before the snapshots do: its open attempts, own uses, own refusals, warm sessions.

An entry lives until `Applied` says that the snapshots include the event that reported it. No clock, no I/O.
"""

from collections import OrderedDict, deque
from collections.abc import Callable, Mapping, Sequence
from typing import NamedTuple, TypeVar

from tidegate.events.causes import Consequence
from tidegate.events.decision import CandidateVerdict, LocalView, WindowUse
from tidegate.events.money import Tokens
from tidegate.events.partition import partition_of
from tidegate.events.types import AttemptId, PoolId, TargetId, WindowId
from tidegate.planner.admission import FOREVER_NS

NOTHING_LOCAL = CandidateVerdict(target=TargetId(""), pool=PoolId("")).local
"""The default itself, not its equal: a verdict that holds it is encoded without it."""

MAX_PENDING = 512
"""Settled uses kept apart per pool; beyond it the two oldest are held together, until both are covered."""

Period = tuple[WindowId, int]
Subject = TypeVar("Subject", TargetId, PoolId)


class _Memory(NamedTuple):
    """The last prompt of a session on a target."""

    prompt_tokens: int | None
    cached_tokens: int | None
    at_ns: int | None


class _Closed(NamedTuple):
    """A refusal of our own: until when, and the event to be covered."""

    pool: PoolId
    until_ns: int
    seq: int


_NEVER = _Memory(None, None, None)
_COLD: Mapping[TargetId, _Memory] = {}


class _PoolUses:
    """Units per window period: of open attempts, and of settled ones still to be covered."""

    __slots__ = ("_pending", "_units", "uses")

    def __init__(self) -> None:
        self._pending: deque[tuple[int, Sequence[WindowUse]]] = deque()
        self._units: dict[Period, int] = {}
        self.uses: tuple[WindowUse, ...] = ()

    def add(self, uses: Sequence[WindowUse]) -> None:
        for use in uses:
            period = use.window, use.period_start_ns
            self._units[period] = self._units.get(period, 0) + use.units
        self._publish()

    def remove(self, uses: Sequence[WindowUse]) -> None:
        for use in uses:
            period = use.window, use.period_start_ns
            left = self._units.get(period, 0) - use.units
            if left > 0:
                self._units[period] = left
            else:
                self._units.pop(period, None)
        self._publish()

    def settle(self, reserved: Sequence[WindowUse], uses: Sequence[WindowUse], seq: int) -> None:
        self.remove(reserved)
        self.add(uses)
        self._pending.append((seq, uses))
        if len(self._pending) > MAX_PENDING:
            first, second = self._pending.popleft(), self._pending.popleft()
            self._pending.appendleft((max(first[0], second[0]), _merged([*first[1], *second[1]])))

    def cover(self, seq: int) -> None:
        while self._pending and self._pending[0][0] <= seq:
            self.remove(self._pending.popleft()[1])

    def _publish(self) -> None:
        self.uses = tuple([WindowUse(window, start, n) for (window, start), n in self._units.items()])


class Overlay:
    """Local knowledge of one worker. `source` is the worker's own, as in its events and in `Applied`."""

    def __init__(self, source: str, max_sessions: int = 4_096) -> None:
        self._source = source
        self._max_sessions = max_sessions
        self._open: dict[AttemptId, tuple[TargetId, PoolId, Sequence[WindowUse]]] = {}
        self._in_flight: dict[TargetId, int] = {}
        self._uses: dict[PoolId, _PoolUses] = {}
        self._targets: dict[TargetId, _Closed] = {}
        self._pools: dict[PoolId, _Closed] = {}
        self._sessions: OrderedDict[str, dict[TargetId, _Memory]] = OrderedDict()

    def started(
        self, attempt: AttemptId, target: TargetId, pool: PoolId, uses: Sequence[WindowUse] = ()
    ) -> None:
        """An attempt is about to be dialed with these reserved uses."""
        self._open[attempt] = target, pool, uses
        self._in_flight[target] = self._in_flight.get(target, 0) + 1
        if uses:
            self._pool(pool).add(uses)

    def settled(self, attempt: AttemptId, uses: Sequence[WindowUse], seq: int) -> None:
        """The attempt's settlement is event `seq`, with the uses it states. One never started is ignored."""
        known = self._open.pop(attempt, None)
        if known is None:
            return
        target, pool, reserved = known
        left = self._in_flight[target] - 1
        if left:
            self._in_flight[target] = left
        else:
            del self._in_flight[target]
        if reserved or uses:
            self._pool(pool).settle(reserved, uses, seq)

    def failed(self, target: TargetId, pool: PoolId, consequence: Consequence, seq: int) -> None:
        """A failure reported by event `seq` closes its target or pool here until its cooldown ends."""
        until_ns = FOREVER_NS if consequence.until_ns is None else consequence.until_ns
        if consequence.scope == "target":
            self._targets[target] = _longer(self._targets.get(target), pool, until_ns, seq)
        elif consequence.scope == "pool":
            self._pools[pool] = _longer(self._pools.get(pool), pool, until_ns, seq)

    def reopened(self, target: TargetId) -> None:
        """An operator enabled the target: what this worker held against it is void."""
        self._targets.pop(target, None)

    def remember(self, session: str, target: TargetId, tokens: Tokens, at_ns: int) -> None:
        """The session's prompt was answered by the target at `at_ns`; unknown usage teaches nothing."""
        if tokens.input_uncached is None:
            return
        self._sessions.setdefault(session, {})[target] = _Memory(tokens.known_input(), _cached(tokens), at_ns)
        self._sessions.move_to_end(session)
        if len(self._sessions) > self._max_sessions:
            self._sessions.popitem(last=False)

    def applied(self, partition: int, marks: Mapping[str, int]) -> None:
        """The snapshots of a partition of `signals` now include each source up to its `seq`."""
        seq = marks.get(self._source)
        if seq is None:
            return
        for pool, uses in self._uses.items():
            if partition_of(pool) == partition:
                uses.cover(seq)
        _drop_covered(self._targets, partition, seq)
        _drop_covered(self._pools, partition, seq)

    def locals_of(
        self, session: str, now_ns: int, switches: Mapping[TargetId, bool]
    ) -> Callable[[TargetId, PoolId], LocalView]:
        """What a decision at `now_ns` must know of each candidate, kill-switches in force included."""
        warm = self._sessions.get(session, _COLD)
        in_flight, of_pool = self._in_flight, self._uses
        closed, cooling = self._targets, self._pools

        def local_of(target: TargetId, pool: PoolId) -> LocalView:
            disabled = switches.get(target)
            memory = warm.get(target)
            flying = in_flight.get(target, 0)
            used = of_pool.get(pool)
            uses = () if used is None else used.uses
            until_ns = closed[target].until_ns if target in closed else None
            pool_until_ns = cooling[pool].until_ns if pool in cooling else None
            if memory is None:
                if not (flying or uses or until_ns or pool_until_ns) and disabled is None:
                    return NOTHING_LOCAL
                memory = _NEVER
            return LocalView(
                disabled=disabled,
                in_flight=flying,
                uses=uses,
                refusing_until_ns=until_ns if until_ns is not None and until_ns > now_ns else None,
                pool_until_ns=pool_until_ns if pool_until_ns is not None and pool_until_ns > now_ns else None,
                session_prompt_tokens=memory.prompt_tokens,
                session_cached_tokens=memory.cached_tokens,
                session_at_ns=memory.at_ns,
            )

        return local_of

    def _pool(self, pool: PoolId) -> _PoolUses:
        known = self._uses.get(pool)
        if known is None:
            known = self._uses[pool] = _PoolUses()
        return known


def _cached(tokens: Tokens) -> int | None:
    """Input tokens the provider read from or wrote to its cache; None when it reports neither."""
    classes = tokens.cache_read, tokens.cache_write_5m, tokens.cache_write_1h
    known = [count for count in classes if count is not None]
    return sum(known) if known else None


def _longer(known: _Closed | None, pool: PoolId, until_ns: int, seq: int) -> _Closed:
    if known is None:
        return _Closed(pool, until_ns, seq)
    return _Closed(pool, max(known.until_ns, until_ns), max(known.seq, seq))


def _drop_covered(closed: dict[Subject, _Closed], partition: int, seq: int) -> None:
    for subject, entry in list(closed.items()):
        if entry.seq <= seq and partition_of(entry.pool) == partition:
            del closed[subject]


def _merged(uses: Sequence[WindowUse]) -> list[WindowUse]:
    units: dict[Period, int] = {}
    for use in uses:
        period = use.window, use.period_start_ns
        units[period] = units.get(period, 0) + use.units
    return [WindowUse(window, start, n) for (window, start), n in units.items()]
