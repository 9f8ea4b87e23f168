"""What one worker knows before the snapshots do: its open attempts, own uses, own refusals, warm sessions.

An entry lives until `Applied` says that the snapshots include the event that reported it. No clock, no I/O: what
is held ends by the monotonic time of its caller, so that no correction of the wall clock makes it longer.
"""

from collections import OrderedDict
from collections.abc import Mapping, Sequence
from typing import TypeVar

import msgspec

from tidegate.events.causes import Consequence
from tidegate.events.decision import NOTHING_LOCAL, LocalView, WindowUse
from tidegate.events.money import Tokens
from tidegate.events.partition import partition_of
from tidegate.events.snapshots import RateSnapshot
from tidegate.events.types import AttemptId, PoolId, TargetId
from tidegate.planner.admission import FOREVER_NS
from tidegate.planner.held import Believed, HeldPool, HeldTarget
from tidegate.planner.places import Places
from tidegate.planner.warm import Contexts, Left, grown_from, left_by, with_context

_Name = TypeVar("_Name", bound=str)
_COLD: Mapping[TargetId, Contexts] = {}


class Overlay:
    """Local knowledge of one worker. `source` is the worker's own, as in its events and in `Applied`.

    `workers` share the caps on attempts in flight and what the snapshots say is left of quota windows: each counts
    its own that many times, so that together they keep to a cap or a quota without talking to each other.
    """

    def __init__(self, source: str, max_sessions: int = 4_096, workers: int = 1) -> None:
        self._source = source
        self._workers = workers
        self._max_sessions = max_sessions
        self._open: dict[AttemptId, tuple[TargetId, PoolId, Sequence[WindowUse]]] = {}
        self._targets: dict[TargetId, HeldTarget] = {}
        self._pools: dict[PoolId, HeldPool] = {}
        self._target_ends: dict[TargetId, Believed] = {}
        self._pool_ends: dict[PoolId, Believed] = {}
        self._sessions: OrderedDict[str, dict[TargetId, Contexts]] = OrderedDict()

    def started(
        self, attempt: AttemptId, target: TargetId, pool: PoolId, uses: Sequence[WindowUse] = ()
    ) -> None:
        """An attempt was decided on with these reserved uses: it counts from here on, before it is dialed."""
        self._open[attempt] = target, pool, uses
        self._target(target, pool).in_flight += self._workers
        if uses:
            self._pool(pool).add(uses)

    def settled(self, attempt: AttemptId, uses: Sequence[WindowUse], seq: int) -> None:
        """The attempt's settlement is event `seq`, with the uses it states. One never started is ignored."""
        known = self._open.pop(attempt, None)
        if known is None:
            return
        target, pool, reserved = known
        held = self._targets[target]
        held.in_flight -= self._workers
        if held.is_idle:
            del self._targets[target]
        if reserved or uses:
            self._settle(pool, reserved, uses, seq)

    def undone(self, attempt: AttemptId) -> None:
        """The attempt never began: nothing is held for it, and no event will cover it."""
        self.settled(attempt, (), 0)

    def failed(
        self, target: TargetId, pool: PoolId, consequence: Consequence, seq: int, *, is_guess: bool = False
    ) -> None:
        """A failure reported by event `seq` closes its target or pool here until its cooldown ends, in monotonic time.

        `is_guess`: nobody said when that is.
        """
        until_ns = FOREVER_NS if consequence.until_ns is None else consequence.until_ns
        if consequence.scope == "target":
            self._target(target, pool).close(until_ns, seq, is_guess=is_guess)
        elif consequence.scope == "pool":
            self._pool(pool).close(until_ns, seq)

    def tried(self, target: TargetId, pool: PoolId, at_ns: int) -> None:
        """A target that has failed here since its last success was tried, or failed again."""
        self._target(target, pool).tried_ns = at_ns

    def reopened(self, target: TargetId) -> None:
        """An operator enabled the target, or it has served: what this worker held against it is void."""
        held = self._targets.get(target)
        if held is not None:
            held.closed = held.tried_ns = None
            self._forget_idle(target, held.pool)

    def believed(self, snapshot: RateSnapshot, now_ns: int, mono_ns: int) -> None:
        """A snapshot in force from now on: a refusal it tells lasts as long as it told, whatever clocks say later."""
        of_target, of_pool = snapshot.target, snapshot.pool
        _, _, name = snapshot.subject.partition(":")
        if of_target is not None:
            until_ns = of_target.circuit_until_ns if of_target.circuit == "refusing" else None
            _hold_end(self._target_ends, TargetId(name), until_ns, snapshot.at_ns, now_ns, mono_ns)
        if of_pool is not None:
            until_ns = of_pool.cooldown_until_ns
            _hold_end(self._pool_ends, PoolId(name), until_ns, snapshot.at_ns, now_ns, mono_ns)

    def remember(
        self, session: str, target: TargetId, tokens: Tokens, at_ns: int, asked_tokens: int | None = None
    ) -> None:
        """The session's prompt, estimated at `asked_tokens`, was answered by the target at `at_ns`; unknown usage
        teaches nothing."""
        left = left_by(tokens, asked_tokens, at_ns)
        if left is None:
            return
        warm = self._sessions.get(session)
        if warm is not None:
            warm[target] = with_context(warm.get(target, ()), left)
            self._sessions.move_to_end(session)
            return
        self._sessions[session] = {target: (left,)}
        if len(self._sessions) > self._max_sessions:
            self._sessions.popitem(last=False)

    def applied(self, partition: int, marks: Mapping[str, int]) -> None:
        """The snapshots of a partition of `signals` now include each source up to its `seq`."""
        seq = marks.get(self._source)
        if seq is None:
            return
        for target, held in list(self._targets.items()):
            if partition_of(held.pool) == partition:
                held.cover(seq)
                self._forget_idle(target, held.pool)
        for pool, of_pool in list(self._pools.items()):
            if partition_of(pool) == partition:
                of_pool.cover(seq)
                if of_pool.is_idle:
                    del self._pools[pool]

    def locals_of(
        self,
        places: Places,
        session: str,
        now_ns: int,
        switches: Mapping[TargetId, bool],
        mono_ns: int,
        input_tokens: int,
    ) -> list[LocalView]:
        """What a decision at `now_ns` on a prompt of `input_tokens` must know of each place, kill-switches in force
        included.

        `mono_ns` is the monotonic time of the same moment.
        """
        targets, pools, warm = self._targets, self._pools, self._sessions.get(session, _COLD)
        views = [NOTHING_LOCAL] * len(places.pairs)
        for at in places.touched((targets, warm, switches), pools):
            target, pool = places.pairs[at]
            held, of_pool, disabled = targets.get(target), pools.get(pool), switches.get(target)
            contexts = warm.get(target)
            left = None if contexts is None else grown_from(contexts, input_tokens)
            views[at] = _local_view(held, of_pool, left, disabled, mono_ns, now_ns - mono_ns)
        if self._target_ends or self._pool_ends:
            self._cut_short(views, places, now_ns, mono_ns)
        return views

    def _cut_short(self, views: list[LocalView], places: Places, now_ns: int, mono_ns: int) -> None:
        """Tell where a wall clock that was set back would keep closed what has been closed long enough."""
        for at in places.touched((self._target_ends,), self._pool_ends):
            target, pool = places.pairs[at]
            of_target, of_pool = self._target_ends.get(target), self._pool_ends.get(pool)
            end_ns = None if of_target is None else of_target.wall_end_ns(now_ns, mono_ns)
            pool_end_ns = None if of_pool is None else of_pool.wall_end_ns(now_ns, mono_ns)
            if not (end_ns is None and pool_end_ns is None):
                views[at] = msgspec.structs.replace(
                    views[at], believed_until_ns=end_ns, pool_believed_until_ns=pool_end_ns
                )

    def _settle(
        self, pool: PoolId, reserved: Sequence[WindowUse], uses: Sequence[WindowUse], seq: int
    ) -> None:
        of_pool = self._pool(pool)
        of_pool.settle(reserved, uses, seq)
        if of_pool.is_idle:
            del self._pools[pool]

    def _target(self, target: TargetId, pool: PoolId) -> HeldTarget:
        known = self._targets.get(target)
        if known is None:
            known = self._targets[target] = HeldTarget(pool)
        return known

    def _pool(self, pool: PoolId) -> HeldPool:
        known = self._pools.get(pool)
        if known is None:
            known = self._pools[pool] = HeldPool(self._workers)
        return known

    def _forget_idle(self, target: TargetId, pool: PoolId) -> None:
        held, of_pool = self._targets.get(target), self._pools.get(pool)
        if held is not None and held.is_idle:
            del self._targets[target]
        if of_pool is not None and of_pool.is_idle:
            del self._pools[pool]


def _local_view(
    held: HeldTarget | None,
    of_pool: HeldPool | None,
    left: Left | None,
    disabled: bool | None,
    mono_ns: int,
    wall_ahead_ns: int,
) -> LocalView:
    in_flight, refusing_until_ns, tried_at_ns = 0, None, None
    if held is not None:
        in_flight = held.in_flight
        tried_at_ns = _in_wall_time(held.tried_on_a_guess_ns, wall_ahead_ns)
        if held.closed is not None:
            refusing_until_ns = _in_wall_time(held.closed_until_ns(mono_ns), wall_ahead_ns)
    uses: tuple[WindowUse, ...] = ()
    pool_until_ns = None
    if of_pool is not None:
        uses = of_pool.uses
        if of_pool.closed is not None:
            pool_until_ns = _in_wall_time(of_pool.closed_until_ns(mono_ns), wall_ahead_ns)
    if left is None:
        return LocalView(disabled, in_flight, uses, refusing_until_ns, pool_until_ns, tried_at_ns=tried_at_ns)
    return LocalView(
        disabled,
        in_flight,
        uses,
        refusing_until_ns,
        pool_until_ns,
        left.prompt_tokens,
        left.cached_tokens,
        left.at_ns,
        tried_at_ns,
    )


def _in_wall_time(at_ns: int | None, wall_ahead_ns: int) -> int | None:
    return at_ns if at_ns is None or at_ns >= FOREVER_NS else at_ns + wall_ahead_ns


def _hold_end(
    ends: dict[_Name, Believed], name: _Name, until_ns: int | None, at_ns: int, now_ns: int, mono_ns: int
) -> None:
    """Hold when a refusal ends; told again with the same end, it ends when it would have."""
    known = ends.pop(name, None)
    if until_ns is None:
        return
    ends_ns = mono_ns + max(0, until_ns - max(at_ns, now_ns))
    if known is not None and known.until_ns == until_ns:
        ends_ns = min(ends_ns, known.ends_ns)
    ends[name] = Believed(until_ns, ends_ns)
