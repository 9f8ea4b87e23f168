"""The numbers, and every inconsistency among them, in words."""

from typing import Any

import pytest
from msgspec import structs

from support.history import History, append
from tidegate.analytics.bills import BillLine
from tidegate.analytics.ledger import Totals, totals
from tidegate.analytics.reconcile import Reconciliation
from tidegate.analytics.replay_verify import Example, ReplayReport
from tidegate.events.clock import ManualClock
from tidegate.events.control import DeadLetter
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.money import Tokens
from tidegate.events.topics import DEADLETTER
from tidegate.runtime.demo.driver import Tally
from tidegate.runtime.demo.figures import Evidence, by_target, figures, findings, percentile
from tidegate.runtime.demo.log_view import LogView
from tidegate.runtime.demo.workload import Workload

WORK = Workload(origin="test", requests=(), sessions=3, clipped=1, shortened=2, skipped=4)
NOTHING = Reconciliation(
    corrections=(), unreported=(), unknown_lines=(), open_lines=(), missing=(), left_out=(), uncovered=(),
    before=Totals(0, 0, 0), after=Totals(0, 0, 0), billed_nanousd=0,
)  # fmt: skip


async def viewed(*extra: Any) -> LogView:
    """A log in which every attempt is settled at a known price."""
    log, history = MemoryEventLog(ManualClock()), History()
    for number in range(8):
        history.request("gw-0", 4, number)
    for data in extra:
        history.write(DEADLETTER, "x", "x", data, slot="gw-1")
    await append(log, history.outgoing())
    view = LogView(log)
    await view.read()
    await view.close()
    return view


async def evidence(view: LogView | None = None, **changes: Any) -> Evidence:
    view = view or await viewed()
    ledger = totals(view.ledger.entries.values()).nanousd
    tally = Tally(succeeded=view.ended_requests - 1, failed=1, took_s=2.0, reasons={"broken": 1})
    found = Evidence(tally, view, NOTHING, ReplayReport(
        decisions=8, identical=8, different=0, other_version=0, input_missing=0, examples=()
    ), {"a": ledger, "b": 0}, {}, ledger)  # fmt: skip
    return found._replace(**changes)


async def test_consistent_evidence_has_no_findings_and_all_numbers() -> None:
    found = await evidence()
    numbers = figures(WORK, found)
    assert numbers.findings == ()
    assert numbers.requests == numbers.succeeded + numbers.failed + numbers.refused == 8
    assert numbers.attempts == numbers.settlements == sum(numbers.by_basis.values()) == 8
    assert numbers.failovers == 1
    assert numbers.ledger_nanousd == numbers.invoice_nanousd > 0
    assert (numbers.replay_identical, numbers.replay_total) == (8, 8)
    assert numbers.events == found.view.total_events
    assert numbers.events_per_s == pytest.approx(numbers.events / 2.0)
    assert (numbers.decision_p50_us, numbers.added_p99_ms) == (41.0, 0.4)
    assert (numbers.sessions, numbers.clipped, numbers.shortened, numbers.skipped) == (3, 1, 2, 4)
    assert numbers.reasons == {"broken": 1}


async def test_sums_by_target_add_up_to_the_ledger() -> None:
    entries = (await viewed()).ledger.entries.values()
    assert sum(by_target(entries).values()) == totals(entries).nanousd


LINE = BillLine(attempt="x", provider="a", tokens=Tokens(), cost_nanousd=5)


@pytest.mark.parametrize(
    ("changes", "said"),
    [
        ({"tally": Tally(succeeded=20)}, "20 requests were sent, the log has the end of 8"),
        ({"invoices": {"a": 7}}, "and invoices 7 differ by "),
        ({"read_model_nanousd": None}, "the read model's ledger is None"),
        (
            {"again": structs.replace(NOTHING, unknown_lines=(LINE,))},
            "1 lines are billed for no attempt of ours",
        ),
        ({"asked_again": {"a1": (12, 10)}}, "attempt a1: the provider says 12, the ledger 10 nano-dollars"),
        ({"asked_again": {"a1": (None, 10)}}, "attempt a1: the provider says None"),
        (
            {"replay": ReplayReport(decisions=8, identical=7, different=1, other_version=0, input_missing=0, examples=(Example("d1", "r1", "different", "seed: 1 != 2"),))},
            "1 of 8 decisions do not replay identically; first: d1 different seed: 1 != 2",
        ),
    ],
)  # fmt: skip
async def test_every_inconsistency_is_said(changes: dict[str, Any], said: str) -> None:
    listed = findings(await evidence(**changes))
    assert len(listed) == 1
    assert said in listed[0]


async def test_attempts_without_a_settlement_or_a_price_and_dead_letters_are_said() -> None:
    dead = DeadLetter(topic="t", partition=0, offset=1, sha256="x", length=3, error="no envelope")
    view = await viewed(dead)
    entry = next(iter(view.ledger.entries.values()))
    entry.settled_nanousd, entry.corrections = None, 0
    view.ledger.open[entry.attempt] = entry.target
    view.events["UsageSettled"] -= 1
    listed = "\n".join(findings(await evidence(view)))
    assert "1 attempts have no settlement" in listed
    assert "8 attempts, but 7 settlements" in listed
    assert "the cost of 1 attempts is not known" in listed
    assert "1 records of the log are no events" in listed


def test_percentiles_are_values_that_occurred() -> None:
    assert percentile([], 0.5) == 0.0
    assert percentile([5], 0.99) == 5.0
    assert percentile(list(range(100)), 0.5) == 50.0
    assert percentile(list(range(100)), 0.99) == 99.0
