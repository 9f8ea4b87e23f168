"""The engine both runners share: drops duplicates, folds, and commits states, snapshots and positions as one."""

import asyncio
import struct
from collections.abc import Iterable, Mapping, Sequence
from itertools import groupby
from operator import attrgetter
from typing import Protocol

import msgspec

from tidegate.estimator.fold import FOLDED, Folding, Touched
from tidegate.estimator.model_time import AHEAD_NS, in_log_time
from tidegate.estimator.outbox import Asked, Outbox
from tidegate.estimator.state import FOLD_VERSION, Row, State
from tidegate.events import codec
from tidegate.events.clock import Clock
from tidegate.events.config import Routing
from tidegate.events.dedup import Marks
from tidegate.events.envelope import Envelope
from tidegate.events.errors import NotAnEnvelope, UnknownEvent
from tidegate.events.ids import IdSource
from tidegate.events.log.port import EventLog, Outgoing, Record, TopicPartition, Writer
from tidegate.events.partition import PARTITIONS, partition_of
from tidegate.events.quota import duration_ns
from tidegate.events.signals import AttemptStarted
from tidegate.events.topics import SIGNALS, SNAPSHOTS, STATE
from tidegate.events.types import PoolId, TargetId

MARKS_KEY = "marks"
MAX_UNCOMMITTED = 50_000
_BEHIND_INTERVALS = 4

_partition = attrgetter("partition")
_FOLDED = frozenset(kind.__name__ for kind in FOLDED)
_decode = codec.whole_decoder(FOLDED, skipped=(AttemptStarted,)).decode
_rows = msgspec.json.Decoder(Row)


class MarksRow(msgspec.Struct):
    """Stored beside the states of a partition: what was applied of it."""

    position: int
    marks: Marks


_marks_rows = msgspec.json.Decoder(MarksRow)


class Alarms(Protocol):
    """Where the engine reports what an operator must see."""

    def dead_letter(self, record: Record, error: str) -> None:
        """A record is no envelope, or tells numbers that cannot be held: it is left out."""
        ...

    def stopped(self, where: TopicPartition, error: str) -> None:
        """A partition holds an event this build does not know: it is not folded further."""
        ...


class Shard:
    """One signals partition: what was applied of it, and whether it stopped."""

    __slots__ = ("dirty", "marks", "partition", "pools", "position", "stopped", "targets", "writer")

    def __init__(self, partition: int, writer: Writer) -> None:
        self.partition = partition
        self.writer = writer
        self.position = 0
        self.marks = Marks()
        self.dirty = False
        self.stopped = False
        self.targets: set[TargetId] = set()
        self.pools: set[PoolId] = set()


class Engine:
    """State of the shards it owns. `take` folds, `commit` makes it durable and visible; one caller at a time."""

    def __init__(
        self,
        log: EventLog,
        clock: Clock,
        ids: IdSource,
        routing: Routing,
        alarms: Alarms,
        publish_every_s: float,
    ) -> None:
        self._log = log
        self._clock = clock
        self._alarms = alarms
        self._publish_every_ns = int(publish_every_s * 1e9)
        self._published_ns = 0
        self.state = State()
        self.outbox = Outbox(self.state, ids.source("estimator"), ids, clock)
        self.shards: dict[int, Shard] = {}
        self.routing = routing
        self.applied = 0
        self.duplicates = 0
        self.commits = 0
        self.uncommitted = 0
        self._urgent = False

    async def open(
        self, partitions: Sequence[int] = tuple(range(PARTITIONS))
    ) -> Mapping[TopicPartition, int]:
        """Fence any predecessor, restore the states, return where to read on.

        Raises LogUnavailable, StateVersionUnknown.
        """
        writers = await asyncio.gather(*(self._log.writer(f"estimator-{p}") for p in partitions))
        for partition, writer in zip(partitions, writers, strict=True):
            shard = self.shards[partition] = Shard(partition, writer)
            shard.position = (await writer.positions()).get(TopicPartition(SIGNALS.name, partition), 0)
        rows, _ = await self._log.latest(STATE.name, partitions)
        for key, record in rows.items():
            if record.value is not None:
                self._restore(key.decode(), record.partition, record.value)
        self.configure(self.routing)
        return {TopicPartition(SIGNALS.name, p): self.shards[p].position for p in partitions}

    def _restore(self, key: str, partition: int, value: bytes) -> None:
        if key == f"{MARKS_KEY}:{partition}":
            stored = _marks_rows.decode(value)
            self.shards[partition].marks = stored.marks
        else:
            row, shard = _rows.decode(value), self.shards[partition]
            kind, _, name = row.subject.partition(":")
            if kind == "target" and row.fold != FOLD_VERSION:
                # What an older version told of it may be told otherwise, and nobody may use it for long.
                shard.targets.add(TargetId(name))
                shard.dirty = True
            self.state.load(row, partition)

    def configure(self, routing: Routing) -> None:
        """A config came into force: its windows get a series, so that λ > 0 is published before any use."""
        self.routing = routing
        for pool in routing.pools:
            partition = partition_of(pool.id)
            if partition in self.shards:
                index = self.state.pool(pool.id, partition)
                for window in pool.windows:
                    first = window.kind == "first_request"
                    self.state.window_of(index, window.id, duration_ns(window), first_request=first)
        self._urgent = True

    def take(self, records: Sequence[Record]) -> int:
        """Fold records of owned partitions; returns how many were applied. Duplicates are dropped."""
        run = Folding(self.state)
        applied = 0
        for partition, part in groupby(records, _partition):
            if not (shard := self.shards[partition]).stopped:
                applied += self._take_part(shard, part, run)
        self._note(run.finish())
        self.applied += applied
        self.uncommitted += len(records)
        return applied

    def _take_part(self, shard: Shard, records: Iterable[Record], run: Folding) -> int:
        """Neighbouring records of one partition. This loop is most of what an event costs."""
        partition, position, seqs, handlers = shard.partition, shard.position, shard.marks.seqs, run.handlers
        decode, applied = _decode, 0
        event: codec.Whole | None
        for record in records:
            offset = record.offset
            if offset < position:
                continue
            try:
                event = decode(record.value or b"")
            except (msgspec.DecodeError, RecursionError):
                event = self._unusual(shard, record)
                if shard.stopped:
                    break
                position = offset + 1
                if event is None:
                    continue
            else:
                position = offset + 1
                source, seq = event.source, event.seq
                if seq <= seqs.get(source, 0):
                    self.duplicates += 1
                    continue
                seqs[source] = seq
            data = event.data
            handler = handlers.get(type(data))
            if handler is not None:
                ts, append_ns = event.ts, record.append_ns
                if ts > append_ns + AHEAD_NS:
                    data, ts = in_log_time(data, ts, append_ns)
                try:
                    handler(data, ts, partition)
                except (struct.error, OverflowError) as error:
                    # Each number is in bounds, what follows from them is not: this event, not the partition, is lost.
                    self._alarms.dead_letter(
                        record, f"{type(data).__name__} {event.id} cannot be folded: {error}"
                    )
                else:
                    applied += 1
        shard.dirty = shard.dirty or position > shard.position
        shard.position = position
        return applied

    def _unusual(self, shard: Shard, record: Record) -> codec.Whole | None:
        """What one pass does not decode: old versions, SourceClosed and other types, and what is wrong."""
        if record.value is None:
            return None
        try:
            envelope = codec.decode_envelope(record.value)
            if envelope.seq <= shard.marks.seqs.get(envelope.source, 0):
                self.duplicates += 1
                return None
            event = None
            if envelope.type in _FOLDED:
                event = _event_of(envelope)
            else:
                codec.check_known(envelope)
        except NotAnEnvelope as error:
            self._alarms.dead_letter(record, str(error))
            return None
        except UnknownEvent as error:
            shard.stopped = True
            self._alarms.stopped(TopicPartition(record.topic, record.partition), str(error))
            return None
        shard.marks.accept(envelope.source, envelope.seq)
        if envelope.type == "SourceClosed":
            shard.marks.close(envelope.source, record.append_ns)
            shard.marks.retire(record.append_ns)
        return event

    def _note(self, touched: Touched) -> None:
        self._urgent = self._urgent or touched.urgent
        names = list(self.state.targets)
        for index in touched.targets:
            self.shards[self.state.target_partition[index]].targets.add(names[index])
        names_of_pools = list(self.state.pools)
        for index in touched.pools:
            self.shards[self.state.pool_partition[index]].pools.add(names_of_pools[index])

    def is_due(self, *, behind: bool = False) -> bool:
        """True when something should be committed now: a changed circuit, many events, or the interval.

        `behind`: more records wait already. A circuit of the past then waits for the interval, and that is
        longer: what follows may change it again, and commits would keep a backlog from being caught up.
        """
        if (self._urgent and not behind) or self.uncommitted >= MAX_UNCOMMITTED:
            return True
        interval_ns = self._publish_every_ns * (_BEHIND_INTERVALS if behind else 1)
        return self._clock.mono_ns() - self._published_ns >= interval_ns

    async def commit(self) -> None:
        """Write changed states, their snapshots, `Applied` and positions, per partition in one transaction.

        Raises Fenced, LogUnavailable, AckUnknown: the engine is then done; open a new one.
        """
        self._published_ns = self._clock.mono_ns()
        self._urgent = False
        self.uncommitted = 0
        now_ns = self._clock.wall_ns()
        for pool in self.outbox.pools_to_refresh(now_ns, self.routing):
            self.shards[self.state.pool_partition[self.state.pools[pool]]].pools.add(pool)
        due = [shard for shard in self.shards.values() if shard.dirty or shard.pools]
        asked = [Asked(s.partition, s.position, sorted(s.targets), sorted(s.pools)) for s in due]
        work: list[tuple[Shard, list[Outgoing]]] = []
        for shard, records in zip(due, self.outbox.records(asked, now_ns, self.routing), strict=True):
            work.append((shard, records + _marks_records(shard, now_ns, self.outbox)))
            shard.targets, shard.pools, shard.dirty = set(), set(), False
        ended = await asyncio.gather(
            *(
                shard.writer.commit(records, {TopicPartition(SIGNALS.name, shard.partition): shard.position})
                for shard, records in work
            ),
            return_exceptions=True,  # whoever closes the writers after a fault finds none of them in its commit
        )
        for outcome in ended:
            if outcome is not None:
                raise outcome
        self.commits += 1

    async def close(self) -> None:
        """Release the writers; nothing is committed."""
        for shard in self.shards.values():
            await shard.writer.close()


def _event_of(envelope: Envelope) -> codec.Whole:
    return codec.Whole(
        id=envelope.id,
        v=envelope.v,
        ts=envelope.ts,
        source=envelope.source,
        seq=envelope.seq,
        data=codec.decode_data(envelope),
    )


def _marks_records(shard: Shard, now_ns: int, outbox: Outbox) -> list[Outgoing]:
    stored = MarksRow(shard.position, shard.marks)
    key = f"{MARKS_KEY}:{shard.partition}".encode()
    return [
        Outgoing(STATE.name, shard.partition, key, msgspec.json.encode(stored)),
        Outgoing(
            SNAPSHOTS.name,
            shard.partition,
            f"applied:{shard.partition}".encode(),
            outbox.applied(shard.partition, shard.position, shard.marks.seqs, now_ns),
        ),
    ]
