"""The worker's journal: append on the loop, one row per flush, exactly one settlement per attempt."""

import asyncio
import contextlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from tidegate.events import codec
from tidegate.events.clock import Clock
from tidegate.events.envelope import Draft
from tidegate.events.errors import AlreadySettled, JournalUnwritable, SlotTaken
from tidegate.events.ids import IdSource, settlement_id
from tidegate.events.journal import frames
from tidegate.events.journal.carry import carry
from tidegate.events.journal.orphans import settle_orphans
from tidegate.events.journal.receipt import NO_CONTEXT, Batch, Context, Receipt
from tidegate.events.journal.space import Space
from tidegate.events.journal.store import POSITION, JournalStore
from tidegate.events.journal.sync import SyncThread
from tidegate.events.journal.upkeep import Upkeep
from tidegate.events.registry import TYPES
from tidegate.events.signals import AttemptStarted, UsageSettled
from tidegate.events.topics import INDEX, SIGNALS, Topic
from tidegate.events.types import AttemptId, Durability, EventId, SourceId

JOURNALS = "journals"
"""The folder of all slots, in a data folder."""
MAINTAIN_S = 0.1
MAINTAIN_SOON_S = 0.01
BUSY_NS = 2_000_000
"""A flush so soon after the last one takes one more turn of the loop with it, where several attempts are under way."""
LOCK_TRIES = 25
LOCK_RETRY_S = 0.02
_SIGNALS = INDEX[SIGNALS.name]


class _Closing(NamedTuple):
    """A settlement on its way into the file, and the seq of its attempt's start."""

    start_seq: int
    partition: int
    data: UsageSettled
    context: Context


class Journal:
    """One slot's journal, used from one event loop. `open` settles what a dead owner left open.

    `record`/`start`/`settle` buffer an event and return its seq; everything buffered in one turn of the loop,
    in two when the journal is busy, becomes one row; a lone attempt waits for no company. `wait_committed` and
    `wait_settled` tell when it is in the file and safe.
    """

    def __init__(
        self,
        store: JournalStore,
        space: Space,
        clock: Clock,
        ids: IdSource,
        source: SourceId,
        durability: Durability,
    ) -> None:
        self._store = store
        self._space = space
        self._position_file = store.folder / POSITION
        self._wall_ns = clock.wall_ns
        self._next_id = ids.next_at
        self.source = source
        self._durability = durability
        self._loop = asyncio.get_running_loop()
        self._pending: list[bytes] = []
        self._has_settlement = False
        self._flushed_ns = 0
        self._first_seq = self._next_seq = store.next_seq
        self._open: dict[AttemptId, int] = {}
        self._closing_now: dict[AttemptId, _Closing] = {}
        self._owed: dict[AttemptId, _Closing] = {}
        self._batch = Batch()
        self._sync_waiters: list[tuple[int, asyncio.Future[None]]] = []
        self.committed_seq = store.next_seq - 1
        self.synced_seq = 0
        self.orphans_settled = 0
        self._broken: JournalUnwritable | None = None
        self._failed_flush: JournalUnwritable | None = None
        self._sync = SyncThread(
            store.folder,
            self,
            on_synced=self._synced_in_thread,
            on_released=self._released_in_thread,
            on_error=self._sync_failed_in_thread,
        )
        self._upkeep = Upkeep(store, space, self._sync.checkpoint_soon)
        self._maintenance: asyncio.TimerHandle | None = None

    @classmethod
    async def open(
        cls,
        folder: Path,
        clock: Clock,
        ids: IdSource,
        *,
        durability: Durability = "strict",
        reserve_bytes: int = 16 * 1024**2,
        max_bytes: int = 4 * 1024**3,
    ) -> "Journal":
        """Take the slot. Raises SlotTaken, JournalUnwritable, JournalCorrupt."""
        store = await _open_store(folder)
        try:
            space = Space(folder, reserve_bytes, max_bytes)
            space.reserve()
            source = ids.source(folder.name)
            orphans = settle_orphans(store, clock, lambda: source)
            store.source_id(source)
            journal = cls(store, space, clock, ids, source, durability)
            journal.orphans_settled = orphans
            journal._sync.start()
        except BaseException:
            store.close()
            raise
        journal._maintain()
        return journal

    @property
    def refusing(self) -> str | None:
        """Why new requests must be refused now, None when they may come."""
        fault = self._broken or self._failed_flush
        if fault is not None:
            return str(fault)
        return self._space.why if self._space.is_low else None

    @property
    def open_attempts(self) -> int:
        """Attempts started and not settled."""
        return len(self._open)

    @property
    def syncs(self) -> int:
        """Syncs done so far."""
        return self._sync.syncs

    def record(
        self, topic: Topic, partition: int, key: str, data: Any, context: Context = NO_CONTEXT
    ) -> Receipt:
        """Buffer an event. Raises JournalUnwritable after a fault or close."""
        return self._append(INDEX[topic.name], partition, frames.PLAIN, key, data, context, None)

    def start(self, partition: int, data: AttemptStarted, context: Context) -> Receipt:
        """Buffer the start of an attempt and hold it open. Await `wait_committed` before dialing."""
        receipt = self._append(_SIGNALS, partition, frames.STARTED, data.attempt, data, context, None)
        self._open[data.attempt] = receipt.seq
        return receipt

    def settle(self, partition: int, data: UsageSettled, context: Context) -> Receipt:
        """Buffer the one settlement of an open attempt. Raises AlreadySettled."""
        if data.attempt not in self._open:
            raise AlreadySettled(f"attempt {data.attempt} is not open: never started or already settled")
        receipt = self._append(
            _SIGNALS, partition, frames.SETTLED, data.attempt, data, context, settlement_id(data.attempt)
        )
        self._closing_now[data.attempt] = _Closing(self._open.pop(data.attempt), partition, data, context)
        self._owed.pop(data.attempt, None)
        self._has_settlement = True
        return receipt

    def _append(
        self,
        topic: int,
        partition: int,
        flag: int,
        key: str,
        data: Any,
        context: Context,
        event: EventId | None,
    ) -> Receipt:
        if self._broken is not None:
            raise self._broken
        kind, version = TYPES[type(data)]
        seq, now_ns = self._next_seq, self._wall_ns()
        if event is None:
            event = EventId(self._next_id(now_ns))
        value = codec.encode(
            Draft(
                event,
                kind,
                version,
                now_ns,
                self.source,
                seq,
                data,
                context.tenant,
                context.request,
                context.session,
                context.cause,
            )
        )
        frame = frames.pack(topic, partition, flag, key.encode(), value)
        self._next_seq = seq + 1
        pending = self._pending
        if not pending:
            is_busy = now_ns - self._flushed_ns < BUSY_NS and len(self._open) > 1
            self._loop.call_soon(self._flush_next_turn if is_busy else self._flush_unless_held)
        pending.append(frame)
        return Receipt(seq, event, self._batch)

    def flush_if_alone(self) -> None:
        """Commit what is buffered if no attempt is under way: what is told last of a request need not wait then."""
        if not self._open:
            self._flush_unless_held()

    async def wait_committed(self, receipt: Receipt) -> None:
        """Return when the event is in the file. Raises JournalUnwritable when it could not be stored."""
        batch = receipt.batch
        if len(self._open) <= 1 and batch is self._batch:
            self._flush_unless_held()  # nobody else is under way who might share the row: no turn is waited for them
        if not batch.done:
            waiter: asyncio.Future[None] = self._loop.create_future()
            batch.waiters.append(waiter)
            await waiter
        elif batch.error is not None:
            raise batch.error

    async def wait_settled(self, receipt: Receipt) -> None:
        """Return when a settlement may be told to the client: synced in `strict`, committed in `fast`.

        Raises JournalUnwritable when it could not be stored.
        """
        if not receipt.batch.done or receipt.batch.error is not None:
            await self.wait_committed(receipt)
        if self._durability == "strict" and self.synced_seq < receipt.seq:
            await self.wait_synced(receipt.seq)

    async def wait_synced(self, seq: int) -> None:
        """Return when a sync begun after the commit of `seq` has returned. Raises JournalUnwritable."""
        if self.synced_seq >= seq:
            return
        if self.committed_seq < seq:
            self.flush()  # a sync that begins before the commit would be of no use
        if self._broken is not None:
            raise self._broken
        if self.committed_seq < seq:
            raise self._failed_flush or JournalUnwritable(f"event {seq} is not in the journal")
        waiter: asyncio.Future[None] = self._loop.create_future()
        self._sync_waiters.append((seq, waiter))
        self._sync.request()
        await waiter

    def _flush_next_turn(self) -> None:
        # Flushes follow one another closely: what the next turn brings shares one with this one.
        self._loop.call_soon(self._flush_unless_held)

    def _flush_unless_held(self) -> None:
        if not self._sync.holding:  # else the thread says when the file is free again; the loop never waits
            self.flush()

    def flush(self) -> None:
        """Commit everything buffered as one row, now."""
        batch = self._pending
        if not batch:
            return
        self._pending = []
        ended, self._batch = self._batch, Batch()
        blob = b"".join(batch)
        try:
            self._insert(len(batch), blob)
        except JournalUnwritable as error:
            self._failed_flush = error
            self._undo()
            ended.end(error)
            return
        except Exception as error:  # noqa: BLE001 - whatever it was, nobody may wait for this batch for ever
            self._undo()
            ended.end(self._break(error))
            return
        self.committed_seq = self._next_seq - 1
        self._first_seq = self._next_seq
        self._closing_now.clear()
        self._has_settlement = False
        ended.end(None)

    def _insert(self, count: int, blob: bytes) -> None:
        mark = next(iter(self._open.values()), self._next_seq)
        now_ns = self._flushed_ns = self._wall_ns()
        try:
            self._store.insert(count, mark, self.source, now_ns, blob)
        except JournalUnwritable:
            if not (self._has_settlement and self._space.release()):
                raise
            self._store.insert(count, mark, self.source, now_ns, blob)

    def _break(self, error: Exception) -> JournalUnwritable:
        """Take nothing any more: what the file would hold is not known. The next owner looks at it anew."""
        if self._broken is None:
            self._broken = JournalUnwritable(f"journal {self._store.folder} takes no more events: {error!r}")
        return self._broken

    def _undo(self) -> None:
        # Nothing of the batch was stored, so its seqs are free again: they stay gap-free. Attempts that
        # began in it were never dialed; settlements in it did not happen, their attempts are open again.
        self._next_seq = self._first_seq
        owed = {attempt: one for attempt, one in self._closing_now.items() if one.start_seq < self._first_seq}
        self._owed |= owed
        reopened = {attempt: one.start_seq for attempt, one in owed.items()}
        kept = {attempt: seq for attempt, seq in self._open.items() if seq < self._first_seq}
        self._open = dict(sorted((reopened | kept).items(), key=lambda item: item[1]))
        self._closing_now.clear()
        self._has_settlement = False

    def _synced_in_thread(self, seq: int) -> None:
        # The loop is woken only for waiters: who comes later asks for another sync, and is seen by that one.
        self.synced_seq = seq
        if self._sync_waiters:
            self._call_in_loop(self._tell_synced)

    def _released_in_thread(self) -> None:
        if self._pending:
            self._call_in_loop(self.flush)

    def _sync_failed_in_thread(self, error: Exception) -> None:
        self._call_in_loop(lambda: self._sync_failed(error))

    def _call_in_loop(self, what: Callable[[], None]) -> None:
        with contextlib.suppress(RuntimeError):  # the loop is closed: nobody waits any more
            self._loop.call_soon_threadsafe(what)

    def _tell_synced(self) -> None:
        waiting: list[tuple[int, asyncio.Future[None]]] = []
        for need, waiter in self._sync_waiters:
            if need <= self.synced_seq:
                if not waiter.done():
                    waiter.set_result(None)
            else:
                waiting.append((need, waiter))
        self._sync_waiters = waiting

    def _sync_failed(self, error: Exception) -> None:
        # After a failed sync the kernel may have dropped the pages: nothing later can be promised here.
        broken = self._break(error)
        for _, waiter in self._sync_waiters:
            if not waiter.done():
                waiter.set_exception(broken)
        self._sync_waiters = []

    def _maintain(self) -> None:
        is_more = False
        if self._broken is None and not self._sync.holding:
            try:
                is_more = self._tidy()
            except JournalUnwritable:
                pass  # a full disk: the next round tries again
            except Exception as error:  # noqa: BLE001 - the journal says so by refusing; the loop goes on
                self._break(error)
        self._maintenance = self._loop.call_later(MAINTAIN_SOON_S if is_more else MAINTAIN_S, self._maintain)

    def _tidy(self) -> bool:
        relayed_to = _position(self._position_file)
        # A settlement that is not in the file yet may still be undone: the start must be there then.
        settling = [one.start_seq for one in self._closing_now.values()]
        carried = carry(self._store, self._open, relayed_to, settling)
        if carried is not None:
            self._open = carried
        mark = min(next(iter(self._open.values()), self._next_seq), *settling, relayed_to)
        is_more = self._upkeep.step(mark) or carried is not None
        if self._failed_flush is not None:
            self._store.probe()
            self._failed_flush = None
        if self._owed and self.refusing is None:
            self._settle_owed()
        return is_more

    def _settle_owed(self) -> None:
        """Settle what could not be stored when it was due: it is known, the next owner could only estimate."""
        owed, self._owed = self._owed, {}
        for one in owed.values():
            self.settle(one.partition, one.data, one.context)

    async def close(self) -> None:
        """Flush, sync, release the slot. Attempts still open are left for the next owner to settle."""
        if self._maintenance is not None:
            self._maintenance.cancel()
        if self._broken is None:
            self._settle_owed()
        self.flush()
        await self._loop.run_in_executor(None, self._sync.close)
        self._broken = self._broken or JournalUnwritable(f"journal {self._store.folder} is closed")
        self._store.close()


async def _open_store(folder: Path) -> JournalStore:
    # The relay takes the lock for an instant to see whether a slot is orphaned.
    for _ in range(LOCK_TRIES):
        try:
            return JournalStore.open(folder)
        except SlotTaken:
            await asyncio.sleep(LOCK_RETRY_S)
    return JournalStore.open(folder)


def read_position(folder: Path) -> int:
    """The relay's position in this journal (next seq to send); 0 when the relay has not been here."""
    return _position(folder / POSITION)


def _position(file: Path) -> int:
    try:
        return int(json.loads(file.read_bytes())["position"])
    except (OSError, ValueError, KeyError, TypeError):
        return 0


def journal_folders(data_dir: Path) -> list[Path]:
    """Folders of all slots, in name order."""
    root = data_dir / JOURNALS
    if not root.is_dir():
        return []
    return sorted(entry for entry in root.iterdir() if os.path.lexists(entry / "journal.db"))
