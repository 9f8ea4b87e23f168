"""What a commit writes: snapshots with dense versions, and the state rows they came from."""

from collections.abc import Sequence
from typing import Any

import msgspec

from tidegate.estimator.publish import publish
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

    def pools_to_refresh(self, now_ns: int, routing: Routing) -> set[str]:
        """Pools with windows that nobody published for a while."""
        due = now_ns - REFRESH_NS
        return {
            pool.id
            for pool in routing.pools
            if pool.windows
            and pool.id in self._state.pools
            and self._pool_published_ns.get(pool.id, 0) <= due
        }

    def records(
        self,
        partition: int,
        position: int,
        now_ns: int,
        routing: Routing,
        targets: Sequence[str],
        pools: Sequence[str],
    ) -> list[Outgoing]:
        """Snapshots and state rows of the named subjects, all of one partition."""
        state = self._state
        target_ids, pool_ids = [TargetId(name) for name in targets], [PoolId(name) for name in pools]
        made = publish(state, now_ns, routing, target_ids, pool_ids)
        config = routing.digest()
        for series, status in made.statuses.items():
            state.window[series].status = status
        found: list[Outgoing] = []
        for target, belief in made.targets.items():
            i = state.targets[target]
            state.target_version[i] += 1
            subject = target_subject(target)
            snapshot = RateSnapshot(
                subject=subject,
                version=state.target_version[i],
                at_ns=now_ns,
                config=config,
                evidence=position,
                target=belief,
            )
            found.append(self._record(partition, subject, snapshot, now_ns))
        for pool, pool_belief in made.pools.items():
            number = state.pools[pool]
            state.pool_version[number] += 1
            subject = pool_subject(pool)
            snapshot = RateSnapshot(
                subject=subject,
                version=state.pool_version[number],
                at_ns=now_ns,
                config=config,
                evidence=position,
                pool=pool_belief,
            )
            found.append(self._record(partition, subject, snapshot, now_ns))
            self._pool_published_ns[pool] = now_ns
        self.snapshots += len(found)
        rows = [state.target_row(target) for target in target_ids if target in state.targets]
        rows += [state.pool_row(pool) for pool in pool_ids if pool in state.pools]
        found += [
            Outgoing(STATE.name, partition, row.subject.encode(), msgspec.json.encode(row)) for row in rows
        ]
        return found

    def applied(self, partition: int, position: int, marks: dict[str, int], now_ns: int) -> bytes:
        """The `Applied` record of a partition."""
        data = Applied(topic=SIGNALS.name, partition=partition, position=position, marks=dict(marks))
        return self._encoded("Applied", data, now_ns)

    def _record(self, partition: int, subject: str, snapshot: RateSnapshot, now_ns: int) -> Outgoing:
        return Outgoing(
            SNAPSHOTS.name, partition, subject.encode(), self._encoded("RateSnapshot", snapshot, now_ns)
        )

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
