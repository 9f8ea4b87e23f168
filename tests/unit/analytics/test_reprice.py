"""A cost that nobody knew is what the list price says, once there is one; a cost that was known stays."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from support.history import History, append
from tidegate.analytics import render
from tidegate.analytics.bills import Correction
from tidegate.analytics.ledger import Entry, Ledger
from tidegate.analytics.reprice import EVIDENCE, plan, reprice
from tidegate.events.clock import ManualClock
from tidegate.events.config import DatedPrice, Pool, Routing, Target, Window
from tidegate.events.decision import WindowUse
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import EventLog
from tidegate.events.money import Tokens
from tidegate.events.signals import AttemptStarted, UsageSettled
from tidegate.events.topics import SIGNALS
from tidegate.events.types import AttemptId, PoolId, TargetId, WindowId

MILLION = 1_000_000
USED = Tokens(input_uncached=100, output=20)
WINDOW = Window(id=WindowId("d"), unit="nanousd", limit=10**9, duration_s=60)
ROUTING = Routing(
    pools=(Pool(id=PoolId("p"), windows=(WINDOW,)),),
    targets=(
        Target(
            id=TargetId("t"),
            dialect="openai",
            base_url="https://a.test",
            model="m",
            pool=PoolId("p"),
            prices=(
                DatedPrice(from_ns=50, input_uncached=MILLION, output=2 * MILLION),
                DatedPrice(from_ns=500, input_uncached=3 * MILLION, output=4 * MILLION),
            ),
        ),
    ),
)


def entry(name: str, cost: int | None = None, tokens: Tokens = USED, **fields: Any) -> Entry:
    return Entry(
        attempt=AttemptId(name), target=TargetId(fields.pop("target", "t")), pool=PoolId("p"), route="r",
        tenant="acme", request=f"r-{name}", session="s", settled_ns=1_000,
        started_ns=fields.pop("started_ns", 100), basis=fields.pop("basis", "reported"), outcome="completed",
        tokens=tokens, settled_nanousd=cost, **fields,
    )  # fmt: skip


def ledger_of(*entries: Entry) -> Ledger:
    ledger = Ledger()
    ledger.entries = {each.attempt: each for each in entries}
    return ledger


def test_the_price_in_force_when_the_attempt_began_is_the_one() -> None:
    found = plan(ledger_of(entry("a"), entry("b", started_ns=500), entry("c", started_ns=None)), ROUTING)
    assert [each.data.delta_nanousd for each in found.corrections] == [140, 380, 380]
    (first, *_) = found.corrections
    assert (first.data.evidence, first.data.billed_nanousd, first.data.tokens) == (EVIDENCE, None, USED)
    assert (first.tenant, first.request, first.session) == ("acme", "r-a", "s")
    assert (found.before.unpriced, found.after.unpriced, found.after.nanousd) == (3, 0, 900)
    table = render.repricing_table(found)
    assert (table.row_count, "3 priced" in str(table.caption)) == (2, True)
    assert len(render.repricing_json(found)["corrections"]) == 3


@given(st.integers(0, 10**12), st.integers(0, 3), st.integers(-5, 5))
def test_what_was_charged_stays_charged(cost: int, corrections: int, delta_nanousd: int) -> None:
    known = entry("a", cost, corrections=corrections, delta_nanousd=delta_nanousd)
    corrected = entry("b", None, corrections=1, delta_nanousd=delta_nanousd)
    found = plan(ledger_of(known, corrected), ROUTING)
    assert found.corrections == found.without_price == found.without_usage == ()
    assert found.before == found.after


def test_without_a_price_or_without_usage_it_stays_unknown_and_is_named() -> None:
    found = plan(
        ledger_of(
            entry("early", started_ns=49),
            entry("gone", target="u"),
            entry("left", tokens=Tokens(), basis="estimated"),
            entry("half", tokens=Tokens(5), basis="estimated"),
        ),
        ROUTING,
    )
    assert found.corrections == ()
    assert (found.without_price, found.without_usage) == (("early", "gone"), ("left", "half"))
    assert found.after.unpriced == 4


def test_a_window_in_dollars_counts_what_is_known_now() -> None:
    use = WindowUse(WINDOW.id, 0, 1_000, 60 * 10**9)
    found = plan(ledger_of(entry("a", windows=(use,))), ROUTING)
    assert [each.units for each in found.corrections[0].data.windows] == [140 - 1_000]


class LogRecorder:
    """Writes corrections as a journal of their own would."""

    def __init__(self, log: EventLog, history: History) -> None:
        self.log, self.history, self.calls = log, history, 0

    async def record(self, corrections: Sequence[Correction]) -> None:
        self.calls += 1
        written = [
            self.history.write(SIGNALS, each.data.pool, each.data.attempt, each.data, slot="rec")
            for each in corrections
        ]
        await append(self.log, [each.outgoing() for each in written])


async def test_through_the_log_a_second_run_records_nothing() -> None:
    """Also where the price comes only between the first run and the next."""
    history, log = History(), MemoryEventLog(ManualClock())
    attempt, target, pool = AttemptId("a"), TargetId("t"), PoolId("p")
    start = AttemptStarted(
        attempt=attempt, target=target, pool=pool, route="r", index=0, input_tokens=9, reserve_output_tokens=9
    )
    end = UsageSettled(
        attempt=attempt,
        target=target,
        pool=pool,
        route="r",
        basis="reported",
        outcome="completed",
        tokens=USED,
    )
    for data in (start, end):
        history.write(SIGNALS, pool, attempt, data, tenant="acme")
    await append(log, history.outgoing())
    recorder = LogRecorder(log, history)
    priceless = msgspec.structs.replace(ROUTING, targets=())
    found = [await reprice(log, recorder, routing) for routing in (priceless, ROUTING, ROUTING)]
    assert [len(each.corrections) for each in found] == [0, 1, 0]
    assert [each.after.unpriced for each in found] == [1, 0, 0]
    assert found[1].after.nanousd == found[2].before.nanousd == 380
    assert recorder.calls == 1
