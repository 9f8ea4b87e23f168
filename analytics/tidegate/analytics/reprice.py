"""Attempts that were settled without a price are given the one that their target has been given since."""

from collections.abc import Mapping

import msgspec

from tidegate.analytics.bills import Correction
from tidegate.analytics.history import Phases, silently
from tidegate.analytics.ledger import Entry, Ledger, Totals, read_on, totals
from tidegate.analytics.ports import Recorder
from tidegate.analytics.quota import Quota
from tidegate.events.config import Routing, Target
from tidegate.events.log.port import EventLog
from tidegate.events.money import cost_nanousd
from tidegate.events.signals import SettlementCorrected
from tidegate.events.types import AttemptId, TargetId

EVIDENCE = "list price that was added later"


class Repricing(msgspec.Struct, frozen=True, kw_only=True):
    """What was priced. Totals are over all attempts of the ledger."""

    corrections: tuple[Correction, ...]
    without_price: tuple[AttemptId, ...]
    """The config names no price of their target for the time they began."""
    without_usage: tuple[AttemptId, ...]
    """Their provider never said what they used: only its bill tells what they cost."""
    before: Totals
    after: Totals


async def reprice(
    log: EventLog, recorder: Recorder, routing: Routing, phases: Phases = silently
) -> Repricing:
    """Read the ledger and record what was missing. A second run records nothing. Raises Unavailable; nothing was
    recorded then, unless the recorder says so."""
    ledger = Ledger()
    await read_on(log, ledger, None, phases("reading the ledger"))
    found = plan(ledger, routing)
    if found.corrections:
        await recorder.record(found.corrections)
    return found


def plan(ledger: Ledger, routing: Routing) -> Repricing:
    """What follows from the prices of this config; pure. Changes nothing in `ledger`.

    Only a cost that nobody knows is filled in: what was charged at another price stays charged so.
    """
    targets = {target.id: target for target in routing.targets}
    quota = Quota(routing)
    corrections: list[Correction] = []
    without_price: list[AttemptId] = []
    without_usage: list[AttemptId] = []
    for entry in ledger.entries.values():
        if entry.ledger_nanousd is not None:
            continue
        if entry.tokens.input_uncached is None or entry.tokens.output is None:
            without_usage.append(entry.attempt)
        elif (cost := _cost(entry, targets)) is None:
            without_price.append(entry.attempt)
        else:
            corrections.append(_correction(entry, cost, quota))
    after = Ledger()
    after.entries = {name: msgspec.structs.replace(entry) for name, entry in ledger.entries.items()}
    for correction in corrections:
        after.correct(correction.data)
    return Repricing(
        corrections=tuple(corrections),
        without_price=tuple(without_price),
        without_usage=tuple(without_usage),
        before=totals(ledger.entries.values()),
        after=totals(after.entries.values()),
    )


def _cost(entry: Entry, targets: Mapping[TargetId, Target]) -> int | None:
    target = targets.get(entry.target)
    begun_ns = entry.settled_ns if entry.started_ns is None else entry.started_ns
    price = None if target is None else target.list_price(begun_ns)
    return None if price is None else cost_nanousd(entry.tokens, price)


def _correction(entry: Entry, cost: int, quota: Quota) -> Correction:
    return Correction(
        data=SettlementCorrected(
            attempt=entry.attempt,
            target=entry.target,
            pool=entry.pool,
            delta_nanousd=cost,
            tokens=entry.tokens,
            evidence=EVIDENCE,
            correction=entry.corrections,
            windows=quota.changes(entry, entry.tokens, 1, cost),
        ),
        tenant=entry.tenant,
        request=entry.request,
        session=entry.session,
    )
