"""The loop that follows the log: reads, folds, commits; stops single partitions, never skips a record."""

import asyncio
from collections import defaultdict
from collections.abc import AsyncGenerator, Callable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import asynccontextmanager, suppress
from typing import TypeVar

import duckdb
import msgspec

from tidegate.events.errors import LogCorrupt, Unavailable
from tidegate.events.log.port import EventLog, Reader, Record, TopicPartition
from tidegate.projections.batch import Halt, Part
from tidegate.projections.errors import StoreUnusable
from tidegate.projections.ingest import Ingest
from tidegate.projections.ports import Alarm, DeadLetters, Watch, unwatched
from tidegate.projections.progress import Progress
from tidegate.projections.store import Store

T = TypeVar("T")

_FIRST_RETRY_S = 0.05
_LAST_RETRY_S = 2.0


class Pace(msgspec.Struct, frozen=True, kw_only=True):
    """How records are cut into transactions; content does not depend on it."""

    batch_records: int = 5_000
    linger_s: float = 0.1
    """How long a small batch waits for more: a transaction costs milliseconds whatever its size."""
    poll_s: float = 1.0


class Counts(msgspec.Struct):
    """What the runner did since its start."""

    events: int = 0
    rows: int = 0
    commits: int = 0
    duplicates: int = 0
    poison: int = 0
    memory_retries: int = 0
    log_retries: int = 0


class Gap(msgspec.Struct, frozen=True):
    """The log no longer holds what lies between the read model's position and its oldest record."""

    topic: str
    partition: int
    position: int
    oldest: int


class Runner:
    """Folds every partition of the folded topics into one store."""

    def __init__(
        self,
        log: EventLog,
        store: Store,
        progress: Progress,
        *,
        dead_letters: DeadLetters,
        alarm: Alarm,
        pace: Pace | None = None,
    ) -> None:
        self._log = log
        self._store = store
        self._progress = progress
        self._dead_letters = dead_letters
        self._alarm = alarm
        self._pace = Pace() if pace is None else pace
        self._ingests: dict[TopicPartition, Ingest] = {}
        self._thread = ThreadPoolExecutor(max_workers=1, thread_name_prefix="projector-ingest")
        self.counts = Counts()
        self.halted: dict[TopicPartition, Halt] = {}
        self.gaps: dict[TopicPartition, Gap] = {}
        self.damage: str | None = None
        """Why the log cannot be followed, when it is damaged and does not just keep away."""

    async def run(self, stop: asyncio.Event) -> None:
        """Follow the log until `stop` is set; a log that cannot be reached or is damaged is tried again:
        what was folded is still asked for.

        Raises StoreUnusable when the database cannot be written any more.
        """
        delay_s = _FIRST_RETRY_S
        while not stop.is_set():
            try:
                async with self._following(self._open_positions()) as reader:
                    while not stop.is_set() and not await self._step(reader):
                        delay_s, self.damage = _FIRST_RETRY_S, None
            except (Unavailable, LogCorrupt) as error:
                if isinstance(error, LogCorrupt) and self.damage != str(error):
                    self.damage = str(error)
                    self._alarm.damaged(error)
                self.counts.log_retries += 1
                await _pause(delay_s, stop)
                delay_s = min(2 * delay_s, _LAST_RETRY_S)

    async def catch_up(self, watch: Watch = unwatched) -> None:
        """Return when everything the log held at the call is committed, halted partitions left out.

        Raises Unavailable (the log cannot be reached), StoreUnusable.
        """
        ends = {where: await self._log.end(where) for where in self._progress.positions}
        total = self._left(ends)
        while behind := self._behind(ends):
            async with self._following(behind) as reader:
                while self._behind(ends) and not await self._step(reader):
                    watch(total - self._left(ends), total)

    def close(self) -> None:
        """End the ingest thread; `run` must have returned."""
        self._thread.shutdown(wait=True)

    def _open_positions(self) -> dict[TopicPartition, int]:
        return {
            where: position
            for where, position in self._progress.positions.items()
            if where not in self.halted
        }

    def _left(self, ends: Mapping[TopicPartition, int]) -> int:
        return sum(ends[where] - position for where, position in self._behind(ends).items())

    def _behind(self, ends: Mapping[TopicPartition, int]) -> dict[TopicPartition, int]:
        return {
            where: position for where, position in self._open_positions().items() if position < ends[where]
        }

    @asynccontextmanager
    async def _following(self, start: Mapping[TopicPartition, int]) -> AsyncGenerator[Reader]:
        """A reader, with the marks as committed: what was folded but not committed will come again."""
        marks = defaultdict(list)
        for mark in self._store.marks():
            marks[TopicPartition(mark.topic, mark.partition)].append(mark)
        self._ingests = {where: Ingest(where, marks[where]) for where in start}
        for where, position in start.items():
            oldest = await self._log.begin(where)
            if position < oldest:
                self.gaps[where] = Gap(*where, position, oldest)
        reader = self._log.reader(start)
        try:
            yield reader
        finally:
            await reader.close()

    async def _step(self, reader: Reader) -> bool:
        """Read, fold and commit one batch; True when a partition was halted and a new reader is needed."""
        records = list(await reader.poll(self._pace.batch_records, self._pace.poll_s))
        if records and len(records) < self._pace.batch_records and self._pace.linger_s > 0:
            await asyncio.sleep(self._pace.linger_s)
            records += await reader.poll(self._pace.batch_records - len(records), 0.0)
        positions = dict(reader.positions())
        parts = await self._in_thread(self._fold, records, positions)
        if not parts:
            return False
        for part in parts:
            for poison in part.poison:
                await self._dead_letters(poison.record, poison.reason)
        await self._commit(parts)
        halts = [part.halt for part in parts if part.halt is not None]
        for halt in halts:
            self.halted[halt.where] = halt
            self._alarm.halted(halt)
        return bool(halts)

    def _fold(self, records: Sequence[Record], positions: Mapping[TopicPartition, int]) -> list[Part]:
        """One part for every partition that moved."""
        grouped: defaultdict[TopicPartition, list[Record]] = defaultdict(list)
        for record in records:
            grouped[TopicPartition(record.topic, record.partition)].append(record)
        return [
            self._ingests[where].fold(grouped[where], position)
            for where, position in positions.items()
            if where in grouped or position > self._progress.positions[where]
        ]

    async def _commit(self, parts: Sequence[Part]) -> None:
        """Commit together; what does not fit or cannot be stored is tried again partition by partition."""
        delay_s = _FIRST_RETRY_S
        while True:
            try:
                await self._in_thread(self._store.apply, parts)
            except duckdb.OutOfMemoryException:
                self.counts.memory_retries += 1
                await asyncio.sleep(delay_s)
                delay_s = min(2 * delay_s, _LAST_RETRY_S)
            except (duckdb.DataError, duckdb.InvalidInputException) as error:
                if len(parts) == 1:
                    where = parts[0].where
                    reason = f"a record of this batch cannot be stored: {error}"
                    parts[0].halt = Halt(where, self._progress.positions[where], reason)
                    return
            except duckdb.Error as error:
                raise StoreUnusable(f"{self._store.path} cannot be written: {error}") from error
            else:
                self._committed(parts)
                return
            if len(parts) > 1:
                for part in parts:
                    await self._commit([part])
                return

    def _committed(self, parts: Sequence[Part]) -> None:
        self.counts.commits += 1
        for part in parts:
            self.counts.events += part.events
            self.counts.duplicates += part.duplicates
            self.counts.poison += len(part.poison)
            self.counts.rows += sum(len(rows) for rows in part.rows.values())
        self._progress.advance({part.where: part.position for part in parts})

    async def _in_thread(self, call: Callable[..., T], *args: object) -> T:
        return await asyncio.get_running_loop().run_in_executor(self._thread, call, *args)


async def _pause(delay_s: float, stop: asyncio.Event) -> None:
    with suppress(TimeoutError):
        async with asyncio.timeout(delay_s):
            await stop.wait()
