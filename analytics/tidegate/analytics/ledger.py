"""The ledger, straight from the log: settlements + corrections, per attempt. The read model is not asked."""

from collections.abc import Iterable
from contextlib import aclosing, suppress

import msgspec

from tidegate.analytics.history import Ends, Watch, ends_of, events_of, unwatched
from tidegate.events.codec import decode_data
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Envelope
from tidegate.events.errors import BeyondBounds
from tidegate.events.log.port import EventLog
from tidegate.events.money import ListPrice, Tokens
from tidegate.events.signals import AttemptStarted, SettlementCorrected, UsageSettled
from tidegate.events.topics import SIGNALS
from tidegate.events.types import AttemptId, Basis, PoolId, TargetId


class Entry(msgspec.Struct, kw_only=True):
    """One settled attempt. Money in nano-dollars; `settled_nanousd` None = no price was known."""

    attempt: AttemptId
    target: TargetId
    pool: PoolId
    route: str
    tenant: str | None
    request: str | None
    session: str | None
    settled_ns: int
    started_ns: int | None = None
    """When it was dialed; None: nothing tells."""
    basis: Basis
    outcome: str
    tokens: Tokens
    """As now known."""
    settled_nanousd: int | None
    price: ListPrice | None = None
    """The list price it was settled at."""
    windows: tuple[WindowUse, ...] = ()
    """Use of its pool's windows as now known."""
    delta_nanousd: int = 0
    corrections: int = 0
    """How many numbers are taken; the next correction has this one."""

    @property
    def ledger_nanousd(self) -> int | None:
        """Settlement + corrections; None while neither is known."""
        if self.settled_nanousd is None and self.corrections == 0:
            return None
        return (self.settled_nanousd or 0) + self.delta_nanousd

    @property
    def is_confirmed(self) -> bool:
        """The provider has said what it was: with the answer, or since."""
        return self.basis == "reported" or self.corrections > 0


class Totals(msgspec.Struct, frozen=True):
    """Sums over entries: `nanousd` of those whose cost is known, and how many are not."""

    attempts: int
    nanousd: int
    unpriced: int


class Ledger:
    """Fold of the signals topic. Partitions may come in any order; the first settlement and the first
    correction of a number hold, as in the read model."""

    def __init__(self) -> None:
        self.entries: dict[AttemptId, Entry] = {}
        self.open: dict[AttemptId, TargetId] = {}
        """Attempts that were started and have no settlement yet."""
        self._started_ns: dict[AttemptId, int] = {}
        """Their beginnings."""

    def fold(self, envelope: Envelope, data: object) -> None:
        """Take one event; types without money are ignored."""
        if isinstance(data, AttemptStarted):
            self._start(envelope, data)
        elif isinstance(data, UsageSettled):
            self._settle(envelope, data)
        elif isinstance(data, SettlementCorrected):
            self.correct(data)

    def correct(self, data: SettlementCorrected) -> None:
        """Take a correction, unless one of this number has been taken."""
        entry = self.entries.get(data.attempt)
        if entry is None or data.correction < entry.corrections:
            return
        entry.corrections = data.correction + 1
        entry.delta_nanousd += data.delta_nanousd
        entry.tokens = data.tokens
        entry.windows = tuple(_changed(use, data.windows) for use in entry.windows)

    def _start(self, envelope: Envelope, data: AttemptStarted) -> None:
        if data.attempt not in self.entries:
            self.open[data.attempt] = data.target
            self._started_ns[data.attempt] = envelope.ts

    def _settle(self, envelope: Envelope, data: UsageSettled) -> None:
        self.open.pop(data.attempt, None)
        started_ns = self._started_ns.pop(data.attempt, None)
        if data.attempt in self.entries:
            return
        self.entries[data.attempt] = Entry(
            attempt=data.attempt,
            target=data.target,
            pool=data.pool,
            route=data.route,
            tenant=envelope.tenant,
            request=envelope.request,
            session=envelope.session,
            settled_ns=envelope.ts,
            started_ns=started_ns,
            basis=data.basis,
            outcome=data.outcome,
            tokens=data.tokens,
            settled_nanousd=data.cost_nanousd,
            price=data.price,
            windows=data.windows,
        )


def _changed(use: WindowUse, changes: Iterable[WindowUse]) -> WindowUse:
    units = sum(change.units for change in changes if change.window == use.window)
    return msgspec.structs.replace(use, units=use.units + units) if units else use


def totals(entries: Iterable[Entry]) -> Totals:
    """Exact sums."""
    attempts = nanousd = unpriced = 0
    for entry in entries:
        attempts += 1
        known = entry.ledger_nanousd
        unpriced += known is None
        nanousd += known or 0
    return Totals(attempts, nanousd, unpriced)


async def read_ledger(log: EventLog, watch: Watch = unwatched) -> Ledger:
    """The ledger as the log holds it now. Raises Unavailable, UnknownEvent (upgrade first)."""
    ledger = Ledger()
    await read_on(log, ledger, None, watch)
    return ledger


async def read_on(log: EventLog, ledger: Ledger, begins: Ends | None, watch: Watch = unwatched) -> Ends:
    """Fold what the log holds from `begins` (all of it by default) to now; returns where to go on."""
    ends = await ends_of(log, SIGNALS)
    async with aclosing(events_of(log, ends, begins, watch)) as found:
        async for _, envelope in found:
            with suppress(BeyondBounds):  # a dead letter: the projector leaves it out too, and tells
                ledger.fold(envelope, decode_data(envelope))
    return ends
