"""EventLog in memory, for tests: the promises of the port, without files or a broker."""

import asyncio
from bisect import bisect_left
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from tidegate.events.clock import Clock
from tidegate.events.errors import Fenced, LogUnavailable
from tidegate.events.log.places import latest_topic, partitions_asked, role_of, topic_at
from tidegate.events.log.port import Outgoing, Record, TopicPartition
from tidegate.events.topics import BY_NAME


class _Partition:
    """Records and newest record per key of one partition; which of the two is kept says the topic."""

    __slots__ = ("end", "history", "latest")

    def __init__(self) -> None:
        self.history: list[Record] = []
        self.latest: dict[bytes, Record] = {}
        self.end = 0

    def add(self, outgoing: Outgoing, append_ns: int) -> None:
        topic = BY_NAME[outgoing.topic]
        record = Record(*outgoing[:2], self.end, outgoing.key, outgoing.value, append_ns)
        self.end += 1
        if topic.keeps_history:
            self.history.append(record)
        if topic.keeps_latest:
            self.latest.pop(record.key, None)  # re-inserted at the end: the dict stays in offset order
            self.latest[record.key] = record

    def kept(self, topic: str) -> Sequence[Record]:
        return self.history if BY_NAME[topic].keeps_history else list(self.latest.values())


class MemoryStore:
    """What outlives a handle: several handles on one store are several processes on one log."""

    def __init__(self) -> None:
        self.partitions: defaultdict[TopicPartition, _Partition] = defaultdict(_Partition)
        self.epochs: defaultdict[str, int] = defaultdict(int)
        self.positions: defaultdict[str, dict[TopicPartition, int]] = defaultdict(dict)
        self._waiting: set[asyncio.Future[None]] = set()

    def append(self, records: Iterable[Outgoing], append_ns: int, *, marker: bool) -> None:
        """Append all records. A `marker` takes an offset of its own in each partition, as in Kafka."""
        touched: set[_Partition] = set()
        for record in records:
            partition = self.partitions[TopicPartition(record.topic, record.partition)]
            partition.add(record, append_ns)
            touched.add(partition)
        if marker:
            for partition in touched:
                partition.end += 1
        for future in self._waiting:
            if not future.done():
                future.set_result(None)

    async def wait_append(self) -> None:
        """Return after the next append."""
        future: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiting.add(future)
        try:
            await future
        finally:
            self._waiting.discard(future)


class MemoryReader:
    """Reader over a MemoryStore."""

    def __init__(self, store: MemoryStore, start: Mapping[TopicPartition, int]) -> None:
        self._store = store
        self._positions: dict[TopicPartition, int] = {}
        for where, position in start.items():
            topic_at(where)
            self._positions[where] = position

    async def poll(self, max_records: int = 5_000, timeout_s: float = 0.0) -> Sequence[Record]:
        """Next records; see `Reader.poll`."""
        await asyncio.sleep(0)  # a reader with a backlog must not starve its loop
        records = self._take(max_records)
        if records or timeout_s <= 0:
            return records
        with suppress(TimeoutError):
            async with asyncio.timeout(timeout_s):
                while not records:
                    await self._store.wait_append()
                    records = self._take(max_records)
        return records

    def positions(self) -> Mapping[TopicPartition, int]:
        """Next offset per partition."""
        return dict(self._positions)

    def seek(self, where: TopicPartition, position: int) -> None:
        """Continue `where` from `position`."""
        topic_at(where)
        self._positions[where] = position

    async def close(self) -> None:
        """Nothing is held."""

    def _take(self, max_records: int) -> list[Record]:
        taken: list[Record] = []
        for where, position in self._positions.items():
            partition = self._store.partitions[where]
            kept = partition.kept(where.topic)
            first = bisect_left(kept, position, key=lambda record: record.offset)
            part = kept[first : first + max_records - len(taken)]
            taken += part
            at_end = first + len(part) == len(kept)
            self._positions[where] = (
                max(partition.end, position) if at_end else part[-1].offset + 1 if part else position
            )
        return taken


class MemoryWriter:
    """Transactional writer on a MemoryStore."""

    def __init__(self, log: "MemoryEventLog", transactional_id: str) -> None:
        self._log = log
        self._id = transactional_id
        log.store.epochs[transactional_id] += 1
        self._epoch = log.store.epochs[transactional_id]
        self._open = True

    async def positions(self) -> Mapping[TopicPartition, int]:
        """Positions of the last commit under this id."""
        self._check()
        return dict(self._log.store.positions[self._id])

    async def commit(
        self, records: Sequence[Outgoing], positions: Mapping[TopicPartition, int] | None = None
    ) -> None:
        """Append and store positions in one step; see `Writer.commit`."""
        self._check()
        role_of(records)
        self._log.put(records, marker=True)
        self._log.store.positions[self._id].update(positions or {})

    async def close(self) -> None:
        """Nothing is committed."""
        self._open = False

    def _check(self) -> None:
        if not self._open:
            raise LogUnavailable(f"the writer {self._id} is closed")
        if self._epoch != self._log.store.epochs[self._id]:
            raise Fenced(f"a younger writer {self._id} exists")


class MemoryEventLog:
    """One handle on a log in memory."""

    def __init__(self, clock: Clock, store: MemoryStore | None = None) -> None:
        self.store = MemoryStore() if store is None else store
        self._clock = clock
        self._open = True

    def put(self, records: Sequence[Outgoing], *, marker: bool) -> None:
        """Append at once. Raises LogUnavailable when this handle is closed."""
        self._check()
        self.store.append(records, self._clock.wall_ns(), marker=marker)

    async def append(self, records: Sequence[Outgoing]) -> None:
        """Append a batch; see `EventLog.append`."""
        role_of(records)
        self.put(records, marker=False)

    def reader(self, start: Mapping[TopicPartition, int]) -> MemoryReader:
        """A reader from the given positions."""
        self._check()
        return MemoryReader(self.store, start)

    async def begin(self, where: TopicPartition) -> int:
        """Oldest offset still kept, the end when none is."""
        topic_at(where)
        self._check()
        partition = self.store.partitions[where]
        kept = partition.kept(where.topic)
        return kept[0].offset if kept else partition.end

    async def end(self, where: TopicPartition) -> int:
        """Position after the last record."""
        topic_at(where)
        self._check()
        return self.store.partitions[where].end

    async def latest(
        self, topic: str, partitions: Sequence[int] | None = None
    ) -> tuple[dict[bytes, Record], dict[TopicPartition, int]]:
        """Newest record per key and the positions to follow from."""
        self._check()
        newest: dict[bytes, Record] = {}
        ends: dict[TopicPartition, int] = {}
        for where in partitions_asked(latest_topic(topic), partitions):
            partition = self.store.partitions[where]
            newest |= {key: record for key, record in partition.latest.items() if record.value is not None}
            ends[where] = partition.end
        return newest, ends

    async def writer(self, transactional_id: str) -> MemoryWriter:
        """A transactional writer; fences its predecessor."""
        self._check()
        return MemoryWriter(self, transactional_id)

    async def delete_before(self, where: TopicPartition, offset: int) -> None:
        """Forget history below `offset`; only for what is archived."""
        topic_at(where)
        self._check()
        history = self.store.partitions[where].history
        del history[: bisect_left(history, offset, key=lambda record: record.offset)]

    async def close(self) -> None:
        """Refuse further calls; the store lives on."""
        self._open = False

    def _check(self) -> None:
        if not self._open:
            raise LogUnavailable("this handle of the log in memory is closed")
