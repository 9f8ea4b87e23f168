"""The relay: moves journals into the log, the only writer of gateway events there, the same for both logs.

It sends only synced rows, keeps its position per journal in a file of its own, and moves it only after
every record of a step is acknowledged; after an unknown acknowledgement it sends the step again.
Consumers drop what they have seen by (source, seq).
"""

import asyncio
import os
from collections.abc import Callable
from pathlib import Path

import msgspec

from tidegate.events import codec
from tidegate.events.clock import Clock
from tidegate.events.control import SourceClosed
from tidegate.events.envelope import Draft
from tidegate.events.errors import JournalUnwritable, LogUnavailable, SlotTaken, Unavailable
from tidegate.events.ids import IdSource, source_closed_id
from tidegate.events.journal import frames
from tidegate.events.journal.journal import journal_folders
from tidegate.events.journal.orphans import settle_orphans
from tidegate.events.journal.store import POSITION, JournalStore, JournalTail, Row, take_lock
from tidegate.events.journal.sync import SyncedMark
from tidegate.events.log.port import EventLog, Outgoing
from tidegate.events.topics import TOPICS

STEP_ROWS = 64
STEP_BYTES = 4 * 1024 * 1024
IDLE_S = 0.002
IDLE_MAX_S = 0.02
GATHER_S = 0.005
GATHER_EVENTS = 500
RETRY_S = 0.05
RETRY_MAX_S = 1.0


class Position(msgspec.Struct, omit_defaults=True):
    """The relay's own record of one journal: next seq to send, and what the current source touched."""

    position: int = 0
    source: str | None = None
    last_seq: int = 0
    closed: bool = False
    touched: list[tuple[int, int]] = []


class JournalRelay:
    """One journal's way into the log."""

    def __init__(
        self, folder: Path, log: EventLog, clock: Clock, ids: IdSource, orphan_after_s: float
    ) -> None:
        self._folder = folder
        self._log = log
        self._clock = clock
        self._ids = ids
        self._orphan_after_ns = int(orphan_after_s * 1e9)
        self._free_since_ns: int | None = None
        self._tail: JournalTail | None = None
        self._mark: SyncedMark | None = None
        self._position = _load_position(folder)
        self._is_stored = True
        self._touched = set(self._position.touched)
        self.sent = 0

    @property
    def position(self) -> int:
        """Next seq to send."""
        return self._position.position

    def lag(self) -> int:
        """Synced events that the log does not hold yet."""
        synced = 0 if self._mark is None else self._mark.read()
        return max(0, synced + 1 - max(1, self._position.position))

    async def step(self) -> int:
        """Send one batch of synced rows; returns how many events. Raises Unavailable: call again later."""
        if self._tail is None or self._mark is None:
            self._tail, self._mark = JournalTail(self._folder), SyncedMark(self._folder)
        if not self._is_stored:
            self._store(self._position)
        synced = self._mark.read()
        if synced < self._position.position or synced == 0:
            return 0
        rows = _bounded(self._tail.rows(self._position.position, synced, STEP_ROWS))
        if not rows or rows[-1].last_seq < self._position.position:
            return 0
        return await self._send(rows)

    async def _send(self, rows: list[Row]) -> int:
        records: list[Outgoing] = []
        touched, source, last_seq = set(self._touched), self._position.source, self._position.last_seq
        closed = self._position.closed
        for row in rows:
            if row.source != source:
                if source is not None and not closed:
                    records += _closing(source, last_seq, touched, self._clock.wall_ns())
                source, touched, closed = row.source, set(), False
            for frame in frames.unpack(row.frames):
                records.append(Outgoing(TOPICS[frame.topic].name, frame.partition, frame.key, frame.value))
                touched.add((frame.topic, frame.partition))
            last_seq = row.last_seq
        await self._log.append(records)
        self._touched = touched
        self._store(Position(last_seq + 1, source, last_seq, False, sorted(touched)))
        self.sent += len(records)
        return len(records)

    def _store(self, position: Position) -> None:
        self._position = position
        aside = self._folder / (POSITION + ".new")
        try:
            aside.write_bytes(msgspec.json.encode(position))
            aside.replace(self._folder / POSITION)
            self._is_stored = True
        except OSError:
            # A full disk. The relay goes on; were it started again, it would repeat what it has sent since.
            self._is_stored = False

    async def drain_if_orphaned(self, *, at_once: bool = False) -> bool:
        """When the slot's owner is gone for the set time, settle what it left open and close its source.

        Returns True when the journal is closed and everything is in the log.
        """
        if self._position.closed and self.lag() == 0 and not at_once:
            if not _is_free(self._folder):
                self._free_since_ns = None
            return True
        if not _is_free(self._folder):
            self._free_since_ns = None
            return False
        now_ns = self._clock.mono_ns()
        if self._free_since_ns is None:
            self._free_since_ns = now_ns
        if not at_once and now_ns - self._free_since_ns < self._orphan_after_ns:
            return False
        try:
            store = JournalStore.open(self._folder)
        except SlotTaken:
            return False
        try:
            settle_orphans(store, self._clock, lambda: self._ids.source("drain"))
            store.checkpoint()
            _publish_synced(self._folder, store.next_seq - 1)
            while await self.step():
                pass
            await self._close_source()
        finally:
            store.close()
        return True

    async def _close_source(self) -> None:
        at = self._position
        if at.source is None or at.closed:
            return
        await self._log.append(_closing(at.source, at.last_seq, self._touched, self._clock.wall_ns()))
        self._store(Position(at.position, at.source, at.last_seq, True, []))
        self._touched = set()

    def close(self) -> None:
        """Release files."""
        if self._tail is not None:
            self._tail.close()
        if self._mark is not None:
            self._mark.close()


class Relay:
    """Relays every journal below a data folder, also those that appear later."""

    def __init__(
        self, data_dir: Path, log: EventLog, clock: Clock, ids: IdSource, *, orphan_after_s: float = 10.0
    ) -> None:
        self._data_dir = data_dir
        self._log = log
        self._clock = clock
        self._ids = ids
        self._orphan_after_s = orphan_after_s
        self._relays: dict[Path, JournalRelay] = {}

    def lag(self) -> int:
        """Synced events that the log does not hold yet, over all journals."""
        return sum(relay.lag() for relay in self._relays.values())

    def sent(self) -> int:
        """Events sent since start."""
        return sum(relay.sent for relay in self._relays.values())

    def _find(self) -> None:
        for folder in journal_folders(self._data_dir):
            if folder not in self._relays:
                self._relays[folder] = JournalRelay(
                    folder, self._log, self._clock, self._ids, self._orphan_after_s
                )

    async def step(self) -> int:
        """One round over all journals; returns how many events were sent. Raises Unavailable."""
        self._find()
        sent = 0
        for relay in self._relays.values():
            sent += await relay.step()
        return sent

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Relay until told to stop; then send what is synced and return. Survives an unreachable log."""
        idle_s, retry_s, rounds = IDLE_S, RETRY_S, 0
        while True:
            try:
                sent = await self.step()
                if rounds % 50 == 0:
                    for relay in list(self._relays.values()):
                        await relay.drain_if_orphaned()
                rounds += 1
                retry_s = RETRY_S
            except (Unavailable, JournalUnwritable) as error:
                if stopping():
                    raise
                await asyncio.sleep(min(retry_s, error.retry_after_s or retry_s))
                retry_s = min(retry_s * 2, RETRY_MAX_S)
                continue
            if sent:
                idle_s = IDLE_S
                if self.lag() < GATHER_EVENTS and not stopping():
                    # The log syncs every commit: what gathers meanwhile goes with the next one.
                    await asyncio.sleep(GATHER_S)
                continue
            if stopping():
                return
            await asyncio.sleep(idle_s)
            idle_s = min(idle_s * 1.5, IDLE_MAX_S)

    async def drain(self) -> None:
        """Send everything of journals without an owner and close their sources. Raises Unavailable."""
        self._find()
        for relay in self._relays.values():
            if not await relay.drain_if_orphaned(at_once=True):
                raise LogUnavailable("a journal is still owned by a live process: nothing was drained there")

    def close(self) -> None:
        """Release files."""
        for relay in self._relays.values():
            relay.close()


def _bounded(rows: list[Row]) -> list[Row]:
    size = 0
    for index, row in enumerate(rows):
        size += len(row.frames)
        if size > STEP_BYTES:
            return rows[: index + 1]
    return rows


def _closing(source: str, last_seq: int, touched: set[tuple[int, int]], now_ns: int) -> list[Outgoing]:
    records: list[Outgoing] = []
    for topic, partition in sorted(touched):
        draft = Draft(
            id=source_closed_id(source, topic, partition),
            type="SourceClosed",
            v=1,
            ts=now_ns,
            source=source,
            seq=last_seq + 1,
            data=SourceClosed(last_seq=last_seq),
        )
        records.append(Outgoing(TOPICS[topic].name, partition, source.encode(), codec.encode(draft)))
    return records


def _load_position(folder: Path) -> Position:
    try:
        return msgspec.json.decode((folder / POSITION).read_bytes(), type=Position)
    except (OSError, msgspec.DecodeError):
        return Position()


def _is_free(folder: Path) -> bool:
    try:
        handle = take_lock(folder)
    except SlotTaken:
        return False
    os.close(handle)
    return True


def _publish_synced(folder: Path, seq: int) -> None:
    mark = SyncedMark(folder)
    mark.write(seq)
    mark.close()
