"""What a commit writes: snapshots with dense versions, and the state rows they came from."""

from collections.abc import Iterator, Sequence
from typing import Any, NamedTuple

import msgspec

from tidegate.estimator.publish import Published, publish
from tidegate.estimator.state import State
from tidegate.events import codec
from tidegate.events.clock import Clock
from tidegate.events.config import Routing
from tidegate.events.envelope import Draft
from tidegate.events.ids import IdSource
from tidegate.events.log.port import Outgoing
from tidegate.events.snapshots import Applied, RateSnapshot, pool_subject, target_subject
from tidegate.events.topics import SIGNALS, SNAPSHOTS, STATE
from tidegate.events.types import EventId, PoolId, TargetId

REFRESH_NS = 5_000_000_000
"""Windows are published again after this even without use: time alone moves index, forecast and price."""


class Asked(NamedTuple):
    """Subjects of one partition to publish and store, as of a position in it."""

    partition: int
    position: int
    targets: Sequence[TargetId]
    pools: Sequence[PoolId]


class Outbox:
    """Turns beliefs into records; remembers when each pool was published last."""

    def __init__(self, state: State, source: str, ids: IdSource, clock: Clock) -> None:
        self._state = state
        self._source = source
        self._ids = ids
        self._clock = clock
        self._seq = 0
        self._pool_published_ns: dict[PoolId, int] = {}
        self.snapshots = 0

    def pools_to_refresh(self, now_ns: int, routing: Routing) -> set[PoolId]:
        """Pools with windows that nobody published for a while."""
        due = now_ns - REFRESH_NS
        return {
            pool.id
            for pool in routing.pools
            if pool.windows
            and pool.id in self._state.pools
            and self._pool_published_ns.get(pool.id, 0) <= due
        }

    def records(self, asked: Sequence[Asked], now_ns: int, routing: Routing) -> list[list[Outgoing]]:
        """Per partition the snapshots and state rows of its subjects.

        All are published in one call: the models take many series in hardly more time than one.
        """
        state = self._state
        made = publish(
            state,
            now_ns,
            routing,
            [target for part in asked for target in part.targets],
            [pool for part in asked for pool in part.pools],
        )
        for series, status in made.statuses.items():
            state.window[series].status = status
        config = routing.digest()
        return [[*self._snapshots(part, made, now_ns, config), *self._rows(part)] for part in asked]

    def _snapshots(self, part: Asked, made: Published, now_ns: int, config: str) -> Iterator[Outgoing]:
        state = self._state
        for target in part.targets:
            if target in made.targets:
                i = state.targets[target]
                state.target_version[i] += 1
                yield self._snapshot(
                    part,
                    RateSnapshot(
                        subject=target_subject(target),
                        version=state.target_version[i],
                        at_ns=now_ns,
                        config=config,
                        evidence=part.position,
                        target=made.targets[target],
                    ),
                )
        for pool in part.pools:
            i = state.pools[pool]
            state.pool_version[i] += 1
            self._pool_published_ns[pool] = now_ns
            yield self._snapshot(
                part,
                RateSnapshot(
                    subject=pool_subject(pool),
                    version=state.pool_version[i],
                    at_ns=now_ns,
                    config=config,
                    evidence=part.position,
                    pool=made.pools[pool],
                ),
            )

    def _rows(self, part: Asked) -> Iterator[Outgoing]:
        state = self._state
        rows = [state.target_row(target) for target in part.targets if target in state.targets]
        rows += [state.pool_row(pool) for pool in part.pools if pool in state.pools]
        for row in rows:
            yield Outgoing(STATE.name, part.partition, row.subject.encode(), msgspec.json.encode(row))

    def applied(self, partition: int, position: int, marks: dict[str, int], now_ns: int) -> bytes:
        """The `Applied` record of a partition."""
        data = Applied(topic=SIGNALS.name, partition=partition, position=position, marks=dict(marks))
        return self._encoded("Applied", data, now_ns)

    def _snapshot(self, part: Asked, snapshot: RateSnapshot) -> Outgoing:
        self.snapshots += 1
        value = self._encoded("RateSnapshot", snapshot, snapshot.at_ns)
        return Outgoing(SNAPSHOTS.name, part.partition, snapshot.subject.encode(), value)

    def _encoded(self, kind: str, data: Any, now_ns: int) -> bytes:
        self._seq += 1
        return codec.encode(
            Draft(
                id=EventId(self._ids.next()),
                type=kind,
                v=1,
                ts=now_ns,
                source=self._source,
                seq=self._seq,
                data=data,
            )
        )
