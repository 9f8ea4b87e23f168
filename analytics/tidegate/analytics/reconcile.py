"""Makes the ledger equal the providers' bills: what differs is corrected once, what is unclear is listed."""

import asyncio
from collections.abc import Collection, Iterator, Mapping, Sequence
from itertools import chain
from typing import NamedTuple

import msgspec

from tidegate.analytics.bills import AbsurdLine, Bill, BillLine, Correction
from tidegate.analytics.history import Phases, silently
from tidegate.analytics.ledger import Entry, Ledger, Totals, read_on, totals
from tidegate.analytics.ports import BillSource, Recorder
from tidegate.analytics.quota import Quota
from tidegate.events.config import Routing
from tidegate.events.log.port import EventLog
from tidegate.events.money import COUNTS, Tokens, cost_nanousd
from tidegate.events.signals import SettlementCorrected
from tidegate.events.types import AttemptId, TargetId

_LOOK_EVERY_S = 0.2
NO_TOKENS = msgspec.convert(dict.fromkeys(COUNTS, 0), Tokens)


class Unreported(msgspec.Struct, frozen=True, kw_only=True):
    """A settlement the provider did not report with its answer."""

    attempt: AttemptId
    target: str
    basis: str
    outcome: str
    confirmed: bool
    """A bill has said since what it was."""


class Reconciliation(msgspec.Struct, frozen=True, kw_only=True):
    """What reconciling found and wrote. Totals are over attempts on the targets of the bills."""

    corrections: tuple[Correction, ...]
    unreported: tuple[Unreported, ...]
    unknown_lines: tuple[BillLine, ...]
    """Billed, but no attempt of ours."""
    open_lines: tuple[BillLine, ...]
    """Billed, but our attempt is not settled yet: the next run takes them."""
    missing: tuple[AttemptId, ...]
    """In the ledger at a cost, and on no bill, which does not say that they were free: the bill may still grow,
    began after them, or the provider had told their usage before."""
    uncovered: tuple[AttemptId, ...]
    """On targets whose provider showed no bill, and nobody has confirmed what they were: in no total."""
    left_out: tuple[AttemptId, ...]
    """Settled here, and the provider was still serving them when the bill was drawn, or they came since, or their
    line cannot be true: in no total, the next run takes them."""
    before: Totals
    after: Totals
    billed_nanousd: int
    """Sum of all lines, but those of calls that were still being served."""
    absurd_lines: tuple[AbsurdLine, ...] = ()
    """Billed at what cannot be true: recorded nowhere, in no total."""

    @property
    def is_balanced(self) -> bool:
        """The ledger equals the bills to the last nano-dollar."""
        return (
            self.after.nanousd == self.billed_nanousd
            and not self.after.unpriced
            and not self.unknown_lines
            and not self.open_lines
            and not self.missing
            and not self.uncovered
            and not self.absurd_lines
        )


async def reconcile(
    log: EventLog,
    bills: BillSource,
    recorder: Recorder,
    phases: Phases = silently,
    patience_s: float = 0.0,
    routing: Routing | None = None,
) -> Reconciliation:
    """Read the ledger, then the bills, and record what differs. A second run records nothing.

    The order matters: an attempt in the ledger was settled before the bill was drawn, so a complete bill
    has its line, unless the provider was still serving it. What comes while traffic goes on is read after the
    bill; `patience_s` is how long settlements of billed attempts may take to get into the log. `routing` says
    what the windows of pools count: without it their use is not corrected.
    Raises Unavailable; nothing was recorded then, unless the recorder says so.
    """
    ledger = Ledger()
    ends = await read_on(log, ledger, None, phases("reading the ledger"))
    settled_before = frozenset(ledger.entries)
    phases("asking for bills")
    drawn = await bills.fetch()
    phases("waiting for settlements of billed attempts")
    loop = asyncio.get_running_loop()
    deadline = loop.time() + patience_s
    ends = await read_on(log, ledger, ends)
    while _are_awaited(ledger, drawn) and loop.time() < deadline:
        await asyncio.sleep(_LOOK_EVERY_S)
        ends = await read_on(log, ledger, ends)
    found = plan(ledger, drawn, settled_before, routing)
    if found.corrections:
        await recorder.record(found.corrections)
    return found


def plan(
    ledger: Ledger,
    bills: Sequence[Bill],
    settled_before: Collection[AttemptId] | None = None,
    routing: Routing | None = None,
) -> Reconciliation:
    """What follows from the bills; pure. Changes nothing in `ledger`.

    `settled_before`: attempts that were settled before the bills were drawn; all of the ledger by default.
    """
    found = _sorted_lines(ledger, bills)
    quota = Quota(routing)
    bill_of = {target: bill for bill in bills for target in bill.targets}
    before = ledger.entries.keys() if settled_before is None else settled_before
    mine, others = _parted(ledger, found, bill_of)
    left_out = [each for each in mine if _is_left_out(each, found, bill_of, before)]
    skipped = {each.attempt for each in left_out}
    covered = [each for each in mine if each.attempt not in skipped]
    claims = {entry.attempt: _claim(entry, found.settled, bill_of) for entry in covered}
    off_list_ns = _off_list_ns(covered, claims)
    corrections = tuple(
        correction
        for entry in covered
        if (claim := claims[entry.attempt]) is not None
        and (correction := _correction(entry, claim, quota, off_list_ns)) is not None
    )
    after = Ledger()
    after.entries = {entry.attempt: msgspec.structs.replace(entry) for entry in covered}
    for correction in corrections:
        after.correct(correction.data)
    return Reconciliation(
        corrections=corrections,
        unreported=tuple(
            _unreported(entry, claims.get(entry.attempt))
            for entry in (*after.entries.values(), *others)
            if entry.basis != "reported"
        ),
        unknown_lines=tuple(found.unknown),
        open_lines=tuple(found.open),
        missing=tuple(
            entry.attempt
            for entry in after.entries.values()
            if claims[entry.attempt] is None and entry.ledger_nanousd != 0
        ),
        uncovered=tuple(each.attempt for each in others if not (each.is_confirmed or each.basis == "none")),
        left_out=tuple(each.attempt for each in left_out),
        absurd_lines=tuple(chain.from_iterable(bill.absurd for bill in bills)),
        before=totals(covered),
        after=totals(after.entries.values()),
        billed_nanousd=sum(line.cost_nanousd for line in found.counted()),
    )


def _parted(
    ledger: Ledger, found: "_Lines", bill_of: Mapping[TargetId, Bill]
) -> tuple[list[Entry], list[Entry]]:
    """Entries that a bill is about, and all others."""
    mine: list[Entry] = []
    others: list[Entry] = []
    for entry in ledger.entries.values():
        about = entry.target in bill_of or entry.attempt in found.settled
        (mine if about else others).append(entry)
    return mine, others


def _are_awaited(ledger: Ledger, bills: Sequence[Bill]) -> bool:
    """Whether a billed attempt has no settlement here yet, or not even a beginning."""
    found = _sorted_lines(ledger, bills)
    return bool(found.open) or any(line.attempt is not None for line in found.unknown)


def _is_left_out(
    entry: Entry, found: "_Lines", bill_of: Mapping[TargetId, Bill], before: Collection[AttemptId]
) -> bool:
    """Whether the bill was drawn too early to say anything of it."""
    bill = bill_of.get(entry.target)
    if bill is None:
        return False
    if bill.is_silent_of(entry.attempt):
        return True
    return bill.is_complete and entry.attempt not in found.settled and entry.attempt not in before


class _Lines(NamedTuple):
    """Lines by what we know of their attempt."""

    settled: dict[AttemptId, list[BillLine]]
    open: list[BillLine]
    unknown: list[BillLine]

    def counted(self) -> Iterator[BillLine]:
        """All but lines of calls that the provider was still serving."""
        return chain(chain.from_iterable(self.settled.values()), self.open, self.unknown)


class _Claim(NamedTuple):
    """What a bill says of one attempt, lines added up, or says by leaving it out."""

    tokens: Tokens
    cost_nanousd: int
    evidence: str
    calls: int


def _sorted_lines(ledger: Ledger, bills: Sequence[Bill]) -> _Lines:
    found = _Lines({}, [], [])
    for bill, line in ((its, line) for its in bills for line in its.lines):
        attempt = AttemptId(line.attempt or "")
        if bill.is_silent_of(attempt):
            continue
        if attempt in ledger.entries:
            found.settled.setdefault(attempt, []).append(line)
        elif attempt in ledger.open:
            found.open.append(line)
        else:
            found.unknown.append(line)
    return found


def _claim(
    entry: Entry, lines: Mapping[AttemptId, Sequence[BillLine]], bill_of: Mapping[TargetId, Bill]
) -> _Claim | None:
    """None: the bill says nothing of this attempt. That it has no line says less than the provider's word."""
    if entry.attempt in lines:
        billed = lines[entry.attempt]
        cost_nanousd = sum(line.cost_nanousd for line in billed)
        said = f"bill of {billed[0].provider}, {len(billed)} line(s)"
        return _Claim(_summed(billed), cost_nanousd, said, len(billed))
    bill = bill_of.get(entry.target)
    if entry.is_confirmed or bill is None or bill.complete_until_ns is None or not bill.is_complete:
        return None
    # An orphan is settled long after its call: a bill that began between the two has no line of it.
    begun_ns = 0 if entry.started_ns is None else entry.started_ns
    if begun_ns < bill.complete_from_ns or entry.settled_ns >= bill.complete_until_ns:
        return None
    return _Claim(NO_TOKENS, 0, f"no line on the bill of {bill.provider}", 0)


def _off_list_ns(entries: Sequence[Entry], claims: Mapping[AttemptId, _Claim | None]) -> dict[TargetId, int]:
    """Targets that were ever billed otherwise than listed, and when the first such attempt was settled."""
    found: dict[TargetId, int] = {}
    for entry in entries:
        claim = claims[entry.attempt]
        if claim is not None and claim.calls and entry.price is not None:
            listed = cost_nanousd(_overlaid(entry.tokens, claim.tokens), entry.price)
            if listed is not None and listed != claim.cost_nanousd:
                found[entry.target] = min(found.get(entry.target, entry.settled_ns), entry.settled_ns)
    return found


def _is_news_of_price(entry: Entry, claim: _Claim, off_list_ns: Mapping[TargetId, int]) -> bool:
    """Whether a bill that agrees with the ledger is worth a correction of zero: what is billed of the target is
    learned from corrections, so where some bills are off the list those that are not must be told as well."""
    since_ns = off_list_ns.get(entry.target)
    if since_ns is None or entry.settled_ns < since_ns or entry.corrections:
        return False
    return claim.calls > 0 and entry.price is not None


def _correction(
    entry: Entry, claim: _Claim, quota: Quota, off_list_ns: Mapping[TargetId, int]
) -> Correction | None:
    """What makes the entry equal the claim; None when it does, and no doubt is left to clear up."""
    delta_nanousd = claim.cost_nanousd - (entry.ledger_nanousd or 0)
    tokens = _overlaid(entry.tokens, claim.tokens)
    windows = quota.changes(entry, tokens, claim.calls, claim.cost_nanousd)
    in_doubt = entry.ledger_nanousd is None or (entry.basis == "estimated" and not entry.is_confirmed)
    in_doubt = in_doubt or _is_news_of_price(entry, claim, off_list_ns)
    if not (delta_nanousd or in_doubt or windows) and not _disagree(entry.tokens, claim.tokens):
        return None
    return Correction(
        data=SettlementCorrected(
            attempt=entry.attempt,
            target=entry.target,
            pool=entry.pool,
            delta_nanousd=delta_nanousd,
            tokens=tokens,
            billed_nanousd=claim.cost_nanousd,
            price=entry.price,
            evidence=claim.evidence,
            correction=entry.corrections,
            windows=windows,
        ),
        tenant=entry.tenant,
        request=entry.request,
        session=entry.session,
    )


def _unreported(entry: Entry, claim: _Claim | None) -> Unreported:
    return Unreported(
        attempt=entry.attempt,
        target=entry.target,
        basis=entry.basis,
        outcome=entry.outcome,
        confirmed=claim is not None or entry.is_confirmed,
    )


def _summed(lines: Sequence[BillLine]) -> Tokens:
    """Class by class; a class no line knows stays unknown."""
    counted = {
        name: sum(known)
        for name in COUNTS
        if (known := [n for line in lines if (n := getattr(line.tokens, name)) is not None])
    }
    return msgspec.convert(counted, Tokens)


def _disagree(ours: Tokens, billed: Tokens) -> bool:
    """A class that both know differs. A class that only one knows is no contradiction."""
    return any(
        None not in (left := (getattr(ours, name), getattr(billed, name))) and left[0] != left[1]
        for name in COUNTS
    )


def _overlaid(ours: Tokens, billed: Tokens) -> Tokens:
    """Ours, with what the bill knows in its place."""
    known = {name: n for name in COUNTS if (n := getattr(billed, name)) is not None}
    return msgspec.structs.replace(ours, **known)
