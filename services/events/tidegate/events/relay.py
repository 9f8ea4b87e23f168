"""The relay: moves journals into the log, the only writer of gateway events there, the same for both logs.

It sends only synced rows, keeps its position per journal in a file of its own, and moves it only after
every record of a step is acknowledged; after an unknown acknowledgement it sends the step again.
Consumers drop what they have seen by (source, seq). What is wrong with one journal stops only that one.
"""

import asyncio
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import NamedTuple

from tidegate.events.clock import Clock
from tidegate.events.errors import AckUnknown, Fenced, LogCorrupt, LogUnavailable, TidegateError, Unavailable
from tidegate.events.ids import IdSource
from tidegate.events.journal.journal import journal_folders
from tidegate.events.journal.sending import JournalRelay
from tidegate.events.log.port import EventLog

IDLE_S = 0.002
IDLE_MAX_S = 0.02
GATHER_S = 0.005
GATHER_EVENTS = 500
RETRY_S = 0.05
RETRY_MAX_S = 1.0
FAULT_RETRY_S = 0.5
FAULT_RETRY_MAX_S = 30.0
ORPHANS_EVERY_ROUNDS = 50
_OF_THE_LOG = (LogUnavailable, AckUnknown, Fenced, LogCorrupt)

Report = Callable[[Path, Exception | None], None]


def _no_report(_folder: Path, _error: Exception | None) -> None:
    """For who asks the relay itself."""


class _Duty:
    """What is done again and again for one journal; after a fault of that journal, at growing intervals."""

    def __init__(self, relay: JournalRelay, clock: Clock, report: Report) -> None:
        self._relay = relay
        self._clock = clock
        self._report = report
        self._retry_s = FAULT_RETRY_S
        self._retry_at_ns = 0
        self.is_failing = False

    async def do(self, what: Callable[[], Awaitable[int]]) -> int:
        """Its answer; 0 in a fault and until the next try. Raises only faults of the log."""
        if self.is_failing and self._clock.mono_ns() < self._retry_at_ns:
            return 0
        try:
            done = await what()
        except _OF_THE_LOG:
            raise
        except (TidegateError, OSError) as error:
            self._failed(error)
            return 0
        if self.is_failing:
            self.is_failing, self._retry_s = False, FAULT_RETRY_S
            self._report(self._relay.folder, None)
        return done

    def _failed(self, error: Exception) -> None:
        self._relay.close()  # the next try opens what is there then
        self._retry_at_ns = self._clock.mono_ns() + int(self._retry_s * 1e9)
        self._retry_s = min(self._retry_s * 2, FAULT_RETRY_MAX_S)
        self.is_failing = True
        self._report(self._relay.folder, error)


class _Slot(NamedTuple):
    relay: JournalRelay
    sending: _Duty
    ending: _Duty


class Relay:
    """Relays every journal below a data folder, also those that appear later.

    `report(folder, error)` is called for every failed try with a journal, and with None when it works again.
    """

    def __init__(
        self,
        data_dir: Path,
        log: EventLog,
        clock: Clock,
        ids: IdSource,
        *,
        orphan_after_s: float = 10.0,
        report: Report = _no_report,
    ) -> None:
        self._data_dir = data_dir
        self._log = log
        self._clock = clock
        self._ids = ids
        self._orphan_after_s = orphan_after_s
        self._report = report
        self._slots: dict[Path, _Slot] = {}

    def lag(self) -> int:
        """Synced events that the log does not hold yet, over all journals."""
        return sum(slot.relay.lag() for slot in self._slots.values())

    def sent(self) -> int:
        """Events sent since start."""
        return sum(slot.relay.sent for slot in self._slots.values())

    def sent_by_journal(self) -> dict[str, int]:
        """Events sent since start, by journal."""
        return {folder.name: slot.relay.sent for folder, slot in self._slots.items()}

    def failing(self) -> int:
        """Journals that cannot be relayed, or settled as orphans, now; each is tried again."""
        return sum(slot.sending.is_failing or slot.ending.is_failing for slot in self._slots.values())

    def _find(self) -> None:
        for folder in journal_folders(self._data_dir):
            if folder not in self._slots:
                relay = JournalRelay(folder, self._log, self._clock, self._ids, self._orphan_after_s)
                duties = [_Duty(relay, self._clock, self._report) for _ in range(2)]
                self._slots[folder] = _Slot(relay, *duties)

    async def step(self) -> int:
        """One round over all journals; returns how many events were sent. Raises what the log raises."""
        self._find()
        sent = 0
        for slot in self._slots.values():
            sent += await slot.sending.do(slot.relay.step)
        return sent

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Relay until told to stop; then send what is synced and return. Survives an unreachable log."""
        idle_s, retry_s, rounds = IDLE_S, RETRY_S, 0
        while True:
            try:
                sent = await self.step()
                if rounds % ORPHANS_EVERY_ROUNDS == 0:
                    for slot in list(self._slots.values()):
                        await slot.ending.do(slot.relay.drain_if_orphaned)
                rounds += 1
                retry_s = RETRY_S
            except Unavailable as error:
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
        """Send everything of journals without an owner and close their sources; all that can be drained are.

        Raises what the log raises, at once; LogUnavailable when a journal is owned, or its own fault, at the end.
        """
        self._find()
        faults: list[Exception] = []
        for slot in self._slots.values():
            try:
                if not await slot.relay.drain_if_orphaned(at_once=True):
                    owned = f"{slot.relay.folder} is still owned by a live process: nothing was drained there"
                    faults.append(LogUnavailable(owned))
            except _OF_THE_LOG:
                raise
            except (TidegateError, OSError) as error:
                self._report(slot.relay.folder, error)
                faults.append(error)
        if faults:
            raise faults[0]

    def close(self) -> None:
        """Release files."""
        for slot in self._slots.values():
            slot.relay.close()
