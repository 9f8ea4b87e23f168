"""One journal's way into the log: synced rows only, in order, its position kept in a file of its own."""

import os
from pathlib import Path

import msgspec

from tidegate.events import codec
from tidegate.events.clock import Clock
from tidegate.events.control import SourceClosed
from tidegate.events.envelope import Draft
from tidegate.events.errors import JournalCorrupt, SlotTaken
from tidegate.events.ids import IdSource, source_closed_id
from tidegate.events.journal import frames
from tidegate.events.journal.orphans import settle_orphans
from tidegate.events.journal.store import POSITION, JournalStore, JournalTail, Row, take_lock
from tidegate.events.journal.sync import SyncedMark
from tidegate.events.log.port import EventLog, Outgoing
from tidegate.events.topics import TOPICS

STEP_ROWS = 64
STEP_BYTES = 4 * 1024 * 1024


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
        self.folder = folder
        self._log = log
        self._clock = clock
        self._ids = ids
        self._orphan_after_ns = int(orphan_after_s * 1e9)
        self._free_since_ns: int | None = None
        self._lives_when_free = 0
        self._tail: JournalTail | None = None
        self._mark: SyncedMark | None = None
        self._synced = 0
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
        if self._mark is not None:
            self._synced = self._mark.read()
        return max(0, self._synced + 1 - max(1, self._position.position))

    async def step(self) -> int:
        """Send one batch of synced rows; returns how many events.

        Raises what the log raises, JournalCorrupt, JournalUnwritable, OSError. Call again later, nothing is lost.
        """
        if not self._is_stored:
            self._store(self._position)
        tail, mark = self._opened()
        self._synced = mark.read()
        if self._synced < self._position.position or self._synced == 0:
            return 0
        rows = _bounded(tail.rows(self._position.position, self._synced, STEP_ROWS))
        if not rows or rows[-1].last_seq < self._position.position:
            return 0
        return await self._send(rows)

    def _opened(self) -> tuple[JournalTail, SyncedMark]:
        if self._tail is None:
            self._tail = JournalTail(self.folder)
        if self._mark is None:
            self._mark = SyncedMark(self.folder)
        return self._tail, self._mark

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
                if frame.flag == frames.CARRIED:
                    continue
                if frame.topic >= len(TOPICS):
                    raise JournalCorrupt(
                        f"{self.folder}: flush {row.first_seq} names topic {frame.topic}: no such"
                    )
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
        aside = self.folder / (POSITION + ".new")
        try:
            aside.write_bytes(msgspec.json.encode(position))
            aside.replace(self.folder / POSITION)
            self._is_stored = True
        except OSError:
            # A full disk. The relay goes on; were it started again, it would repeat what it has sent since.
            self._is_stored = False

    async def drain_if_orphaned(self, *, at_once: bool = False) -> bool:
        """When the slot's owner is gone for the set time, settle what it left open and close its source.

        Returns True when its source is closed and all it left is in the log, also what the owner had committed
        and nobody had synced. Raises what `step` raises, and UnknownEvent for a start of a newer version.
        """
        if not _is_free(self.folder):
            self._free_since_ns = None
            return False
        if self._is_done():
            self._free_since_ns = None
            return True
        now_ns, lives = self._clock.mono_ns(), self._opened()[0].lives()
        if self._free_since_ns is None or lives != self._lives_when_free:
            # An owner may have come and gone between two looks: its successor has the whole time again.
            self._free_since_ns, self._lives_when_free = now_ns, lives
        if not at_once and now_ns - self._free_since_ns < self._orphan_after_ns:
            return False
        try:
            dead, through = self._take_over()
        except SlotTaken:
            return False
        while self._position.position <= through and await self.step():
            pass
        if self._position.position <= through or self._position.source != dead:
            return False  # a new owner writes: before what it wrote, `dead` was closed
        await self._close_source()
        self._free_since_ns = None
        return True

    def _take_over(self) -> tuple[str | None, int]:
        """Settle what is open, and let everything be sent: the last dead source, and its last seq. Gives the
        slot back at once: a log that does not answer keeps no new owner waiting. Raises SlotTaken.
        """
        store = JournalStore.open(self.folder)
        try:
            # Named by the slot, as an owner is: that a journal is whole can be told from the log alone.
            settle_orphans(store, self._clock, lambda: self._ids.source(self.folder.name))
            store.checkpoint()
            _publish_synced(self.folder, store.next_seq - 1)
            last = store.last_row()
            return (self._position.source, 0) if last is None else (last.source, last.last_seq)
        finally:
            store.close()

    def _is_done(self) -> bool:
        # By what is committed, not by what is synced: nobody syncs any more what a killed owner left.
        at, committed = self._position, self._opened()[0].last_seq()
        return committed < max(1, at.position) and (at.closed or at.source is None)

    async def _close_source(self) -> None:
        at = self._position
        if at.source is None or at.closed:
            return
        await self._log.append(_closing(at.source, at.last_seq, self._touched, self._clock.wall_ns()))
        self._store(Position(at.position, at.source, at.last_seq, True, []))
        self._touched = set()

    def close(self) -> None:
        """Release files; a later call opens them anew."""
        tail, mark, self._tail, self._mark = self._tail, self._mark, None, None
        if tail is not None:
            tail.close()
        if mark is not None:
            mark.close()


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
