"""Ledger against bills: corrected once, to the last nano-dollar, and what is unclear is listed."""

import asyncio
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.history import History, append
from support.read_model import memory_log
from tidegate.analytics.bills import AbsurdLine, Bill, BillLine, Correction
from tidegate.analytics.ledger import Entry, Ledger, read_ledger
from tidegate.analytics.reconcile import Reconciliation, plan, reconcile
from tidegate.events.clock import ManualClock
from tidegate.events.errors import LogUnavailable
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import EventLog
from tidegate.events.money import ListPrice, Tokens
from tidegate.events.topics import SIGNALS
from tidegate.events.types import AttemptId, PoolId, TargetId

USED = Tokens(input_uncached=100, cache_read=0, output=20)


def entry(
    name: str, cost: int | None, basis: Any = "reported", tokens: Tokens = USED, **fields: Any
) -> Entry:
    return Entry(
        attempt=AttemptId(name),
        target=TargetId(fields.pop("target", "t")),
        pool=PoolId("p"),
        route="r",
        tenant="acme",
        request=f"r-{name}",
        session="s",
        settled_ns=fields.pop("settled_ns", 100),
        basis=basis,
        outcome="completed",
        tokens=tokens,
        settled_nanousd=cost,
        **fields,
    )


def ledger_of(*entries: Entry, opened: Sequence[str] = ()) -> Ledger:
    ledger = Ledger()
    ledger.entries = {each.attempt: each for each in entries}
    ledger.open = {AttemptId(name): TargetId("t") for name in opened}
    return ledger


def line(name: str | None, cost: int, tokens: Tokens = USED) -> BillLine:
    return BillLine(attempt=name, provider="prov", tokens=tokens, cost_nanousd=cost)


def bill(*lines: BillLine, until_ns: int | None = 1_000, targets: Sequence[str] = ("t",)) -> Bill:
    return Bill(
        provider="prov",
        targets=frozenset(map(TargetId, targets)),
        lines=lines,
        complete_until_ns=until_ns,
    )


def test_a_ledger_that_equals_the_bill_needs_nothing() -> None:
    found = plan(ledger_of(entry("a", 10), entry("b", 5)), [bill(line("a", 10), line("b", 5))])
    assert found.corrections == ()
    assert found.is_balanced
    assert (found.before, found.billed_nanousd) == (found.after, 15)


def test_an_estimate_becomes_what_was_billed_with_its_usage_and_context() -> None:
    billed = Tokens(input_uncached=90, cache_read=10, output=33)
    found = plan(ledger_of(entry("a", 10, "estimated")), [bill(line("a", 7, billed))])
    (correction,) = found.corrections
    assert (correction.data.delta_nanousd, correction.data.correction) == (-3, 0)
    assert (correction.data.tokens, correction.data.billed_nanousd) == (billed, 7)
    assert (correction.tenant, correction.request, correction.session) == ("acme", "r-a", "s")
    assert "prov" in correction.data.evidence
    assert (found.before.nanousd, found.after.nanousd, found.billed_nanousd) == (10, 7, 7)
    assert found.is_balanced


def absurd(name: str | None) -> AbsurdLine:
    return AbsurdLine(
        provider="prov", line=2, attempt=None if name is None else AttemptId(name), reason="too much"
    )


def test_a_line_that_cannot_be_true_corrects_nothing_and_the_rest_of_the_bill_is_taken() -> None:
    drawn = msgspec.structs.replace(bill(line("a", 7), line("b", 3)), absurd=(absurd("b"),))
    found = plan(ledger_of(entry("a", 10), entry("b", 5)), [drawn])
    assert [correction.data.attempt for correction in found.corrections] == ["a"]
    assert (found.left_out, found.missing) == (("b",), ())
    assert (found.after.nanousd, found.billed_nanousd) == (7, 7)
    assert found.absurd_lines == drawn.absurd
    assert not found.is_balanced


def test_a_line_that_cannot_be_true_and_names_no_attempt_leaves_open_what_is_on_no_line() -> None:
    drawn = msgspec.structs.replace(bill(line("a", 10)), absurd=(absurd(None),))
    found = plan(ledger_of(entry("a", 10), entry("b", 5)), [drawn])
    assert found.corrections == ()
    assert found.missing == ("b",)
    assert not found.is_balanced


def test_an_estimate_that_was_right_is_confirmed_by_a_correction_of_zero() -> None:
    found = plan(ledger_of(entry("a", 10, "estimated")), [bill(line("a", 10))])
    assert [correction.data.delta_nanousd for correction in found.corrections] == [0]
    assert [each.confirmed for each in found.unreported] == [True]


def test_a_reported_settlement_is_corrected_too_when_the_bill_says_otherwise() -> None:
    found = plan(ledger_of(entry("a", 10)), [bill(line("a", 12))])
    assert [correction.data.delta_nanousd for correction in found.corrections] == [2]


LISTED = ListPrice(input_uncached=50_000, output=250_000)
"""At which USED costs 10."""


def corrected(found: Reconciliation) -> list[tuple[str, int]]:
    return [(each.data.attempt, each.data.delta_nanousd) for each in found.corrections]


def test_where_some_bills_are_off_the_list_those_at_the_list_are_told_as_well_once() -> None:
    """What is billed of a target is learned from corrections: a discount that ended would never be noticed."""
    ledger = ledger_of(
        entry("old", 10, price=LISTED, settled_ns=50),
        entry("low", 10, price=LISTED, settled_ns=60),
        entry("list", 10, price=LISTED, settled_ns=70),
        entry("other", 10, price=LISTED, settled_ns=70, target="t2"),
    )
    bills = [
        bill(line("old", 10), line("low", 8), line("list", 10)),
        bill(line("other", 10), targets=("t2",)),
    ]
    found = plan(ledger, bills)
    assert corrected(found) == [("low", -2), ("list", 0)]
    assert {each.data.price for each in found.corrections} == {LISTED}
    for each in found.corrections:
        ledger.correct(each.data)
    assert plan(ledger, bills).corrections == ()
    ledger.entries[AttemptId("next")] = entry("next", 10, price=LISTED, settled_ns=80)
    bills[0] = bill(line("old", 10), line("low", 8), line("list", 10), line("next", 10))
    assert corrected(plan(ledger, bills)) == [("next", 0)]


def test_a_bill_over_other_tokens_at_the_list_is_not_off_it() -> None:
    ledger = ledger_of(
        entry("more", 10, price=LISTED, settled_ns=60),
        entry("gone", 10, price=LISTED, settled_ns=60),
        entry("list", 10, price=LISTED, settled_ns=70),
    )
    twice = Tokens(input_uncached=200, output=40)
    found = plan(ledger, [bill(line("more", 20, twice), line("list", 10))])
    assert corrected(found) == [("more", 10)], "what has no line was told by its provider"


def test_the_next_correction_takes_the_next_number() -> None:
    twice = entry("a", 10, corrections=2, delta_nanousd=-1)
    found = plan(ledger_of(twice), [bill(line("a", 20))])
    assert [(c.data.correction, c.data.delta_nanousd) for c in found.corrections] == [(2, 11)]


def test_an_unknown_cost_becomes_known() -> None:
    found = plan(ledger_of(entry("a", None, "estimated")), [bill(line("a", 8))])
    assert [correction.data.delta_nanousd for correction in found.corrections] == [8]
    assert (found.before.unpriced, found.after.unpriced) == (1, 0)
    assert found.is_balanced


def test_two_lines_of_one_attempt_add_up() -> None:
    split = Tokens(input_uncached=100, output=20)
    found = plan(ledger_of(entry("a", 10)), [bill(line("a", 10, split), line("a", 10, split))])
    (correction,) = found.corrections
    assert correction.data.delta_nanousd == 10
    assert correction.data.tokens == Tokens(input_uncached=200, cache_read=0, output=40)


def test_a_class_only_one_side_knows_is_no_contradiction_and_is_kept() -> None:
    ours = Tokens(input_uncached=100, output=20, reasoning=5)
    coarse = Tokens(input_uncached=100, cache_write_1h=0, output=20)
    assert plan(ledger_of(entry("a", 10, tokens=ours)), [bill(line("a", 10, coarse))]).corrections == ()
    found = plan(ledger_of(entry("a", 11, tokens=ours)), [bill(line("a", 10, coarse))])
    assert found.corrections[0].data.tokens == Tokens(
        input_uncached=100, cache_write_1h=0, output=20, reasoning=5
    )


def test_usage_that_contradicts_the_bill_is_corrected_even_at_the_same_cost() -> None:
    billed = Tokens(input_uncached=99, output=20)
    found = plan(ledger_of(entry("a", 0)), [bill(line("a", 0, billed))])
    assert [correction.data.tokens.input_uncached for correction in found.corrections] == [99]


def test_an_estimate_that_a_complete_bill_leaves_out_was_not_billed() -> None:
    found = plan(ledger_of(entry("a", 10, "estimated")), [bill()])
    assert [correction.data.delta_nanousd for correction in found.corrections] == [-10]
    assert found.after.nanousd == 0
    assert found.is_balanced


@pytest.mark.parametrize(
    "known", [entry("a", 4), entry("a", 10, "estimated", corrections=1, delta_nanousd=-6)]
)
def test_what_the_provider_itself_has_said_is_not_taken_back_because_a_bill_leaves_it_out(
    known: Entry,
) -> None:
    found = plan(ledger_of(known, entry("b", 5)), [bill(line("b", 5))])
    assert found.corrections == ()
    assert found.missing == ("a",)
    assert found.after.nanousd == 9
    assert not found.is_balanced


def test_a_bill_says_nothing_of_what_was_before_it_began() -> None:
    young = msgspec.structs.replace(bill(), complete_from_ns=101)
    found = plan(ledger_of(entry("a", 10, "estimated", settled_ns=100)), [young])
    assert (found.corrections, found.missing) == ((), ("a",))
    assert not found.is_balanced
    begun = msgspec.structs.replace(bill(), complete_from_ns=100)
    known = entry("a", 10, "estimated", started_ns=100, settled_ns=101)
    assert len(plan(ledger_of(known), [begun]).corrections) == 1


@pytest.mark.parametrize("started_ns", [99, None])
def test_an_orphan_whose_provider_began_a_new_bill_before_it_was_settled_keeps_its_estimate(
    started_ns: int | None,
) -> None:
    """Both were killed: the call is on no bill any more, and that it is on none says nothing."""
    orphan = entry("a", 61_467_000, "estimated", started_ns=started_ns, settled_ns=900)
    found = plan(ledger_of(orphan), [msgspec.structs.replace(bill(), complete_from_ns=100)])
    assert (found.corrections, found.missing, found.after.nanousd) == ((), ("a",), 61_467_000)
    assert not found.is_balanced


async def test_the_ledger_knows_when_an_attempt_began() -> None:
    ledger = await read_ledger(await memory_log(History().day(60).outgoing()))
    began = [each.started_ns for each in ledger.entries.values()]
    ended = [each.settled_ns for each in ledger.entries.values()]
    assert None not in began
    assert all(start is not None and start <= end for start, end in zip(began, ended, strict=True))
    assert len(set(began)) > len(began) // 2


@pytest.mark.parametrize("until_ns", [None, 100, 50])
def test_what_a_bill_that_may_still_grow_leaves_out_is_only_listed(until_ns: int | None) -> None:
    found = plan(ledger_of(entry("a", 10, "estimated", settled_ns=100)), [bill(until_ns=until_ns)])
    assert found.corrections == ()
    assert found.missing == ("a",)
    assert [each.confirmed for each in found.unreported] == [False]
    assert not found.is_balanced


def test_an_attempt_that_was_provably_unbilled_is_listed_and_left_alone() -> None:
    found = plan(ledger_of(entry("a", 0, "none", Tokens())), [bill()])
    assert found.corrections == ()
    assert [(each.basis, each.confirmed) for each in found.unreported] == [("none", True)]


def test_attempts_on_targets_of_no_bill_are_in_no_total_and_named_while_in_doubt() -> None:
    elsewhere = [
        entry("a", 10, "estimated", target="elsewhere"),
        entry("c", 7, target="elsewhere"),
        entry("d", 0, "none", target="elsewhere"),
    ]
    found = plan(ledger_of(*elsewhere, entry("b", 5)), [bill(line("b", 5))])
    assert found.corrections == ()
    assert found.before.attempts == 1
    assert found.uncovered == ("a",)
    assert [(each.attempt, each.confirmed) for each in found.unreported] == [("a", False), ("d", False)]
    assert not found.is_balanced
    assert plan(ledger_of(*elsewhere[1:], entry("b", 5)), [bill(line("b", 5))]).is_balanced


def test_lines_of_no_attempt_of_ours_are_named_and_unbalance_the_books() -> None:
    stranger, nameless = line("who", 3), line(None, 4)
    found = plan(ledger_of(entry("a", 1)), [bill(line("a", 1), stranger, nameless)])
    assert found.unknown_lines == (stranger, nameless)
    assert not found.is_balanced


def test_what_the_provider_still_serves_is_left_out_and_unbalances_nothing() -> None:
    drawn = msgspec.structs.replace(
        bill(line("a", 10), line("twice", 3)), open=frozenset({AttemptId("cut"), AttemptId("twice")})
    )
    found = plan(ledger_of(entry("a", 10), entry("cut", 4, "estimated"), entry("twice", 6)), [drawn])
    assert found.corrections == ()
    assert found.left_out == ("cut", "twice")
    assert (found.before.attempts, found.before.nanousd, found.billed_nanousd) == (1, 10, 10)
    assert found.is_balanced


def test_what_was_settled_since_the_bill_was_drawn_was_not_left_off_it() -> None:
    ledger = ledger_of(entry("old", 10), entry("new", 4), entry("gone", 2, "estimated"))
    found = plan(ledger, [bill(line("old", 10))], {AttemptId("old"), AttemptId("gone")})
    assert [(c.data.attempt, c.data.delta_nanousd) for c in found.corrections] == [("gone", -2)]
    assert found.left_out == ("new",)
    assert found.is_balanced


async def test_settlements_that_come_while_it_reads_are_waited_for() -> None:
    history = History().day(40)
    log = MemoryEventLog(ManualClock())
    late = [r for r in history.outgoing() if b'"UsageSettled"' in (r.value or b"")][-5:]
    await append(log, [record for record in history.outgoing() if record not in late])
    whole = MemoryEventLog(ManualClock())
    await append(whole, history.outgoing())

    class Busy(Bills):
        async def fetch(self) -> Sequence[Bill]:
            drawn = await super().fetch()
            writing.append(asyncio.ensure_future(self.later()))
            return drawn

        async def later(self) -> None:
            await asyncio.sleep(0.05)
            await append(log, late)

    writing: list[asyncio.Future[None]] = []
    found = await reconcile(log, Busy(whole), LogRecorder(log, history), patience_s=20)
    await asyncio.gather(*writing)
    assert found.open_lines == ()
    assert found.after.nanousd == found.billed_nanousd


def test_lines_of_attempts_that_still_run_wait_for_their_settlement() -> None:
    found = plan(ledger_of(opened=["a"]), [bill(line("a", 3))])
    assert found.corrections == ()
    assert [each.attempt for each in found.open_lines] == ["a"]
    assert not found.is_balanced


COSTS = st.none() | st.integers(0, 2**60)
ENTRIES = st.lists(st.tuples(COSTS, st.sampled_from(["reported", "estimated", "none"])), max_size=12)


@given(entries=ENTRIES, data=st.data())
def test_after_reconciling_the_ledger_equals_the_bill_and_a_second_run_finds_nothing(
    entries: list[tuple[int | None, str]], data: st.DataObject
) -> None:
    ledger = ledger_of(*(entry(str(n), cost, basis) for n, (cost, basis) in enumerate(entries)))
    numbers = st.lists(st.integers(0, len(entries) - 1), max_size=15) if entries else st.just([])
    tokens = st.builds(
        Tokens, input_uncached=st.none() | st.integers(0, 9), output=st.none() | st.integers(0, 9)
    )
    lines = [line(str(n), data.draw(st.integers(0, 2**60)), data.draw(tokens)) for n in data.draw(numbers)]
    bills = [bill(*lines)]
    first = plan(ledger, bills)
    for correction in first.corrections:
        ledger.correct(correction.data)
    second = plan(ledger, bills)
    told = sum(ledger.entries[attempt].ledger_nanousd or 0 for attempt in first.missing)
    assert first.after.nanousd == first.billed_nanousd + told == second.before.nanousd
    assert second.corrections == ()
    assert second.missing == first.missing
    assert {ledger.entries[attempt].basis for attempt in first.missing} <= {"reported"}
    assert second.is_balanced == (not second.missing)


class Bills:
    """Bills made from what the ledger held when it was asked, with every third attempt dearer."""

    def __init__(self, log: EventLog) -> None:
        self.log = log

    async def fetch(self) -> Sequence[Bill]:
        ledger = await read_ledger(self.log)
        entries = [each for each in ledger.entries.values() if each.basis != "none"]
        lines = [
            line(each.attempt, abs(hash(each.attempt)) % 1000 if n % 3 else 77, each.tokens)
            for n, each in enumerate(entries)
        ]
        return [bill(*lines, targets=sorted({each.target for each in entries}), until_ns=2**62)]


class LogRecorder:
    """Writes corrections as the reconcile role's source."""

    def __init__(self, log: EventLog, history: History) -> None:
        self.log, self.history, self.calls = log, history, 0

    async def record(self, corrections: Sequence[Correction]) -> None:
        self.calls += 1
        written = [
            self.history.write(
                SIGNALS, each.data.pool, each.data.attempt, each.data, slot="rec", tenant=each.tenant,
                request=each.request, session=each.session,
            )
            for each in corrections
        ]  # fmt: skip
        await append(self.log, [each.outgoing() for each in written])


async def test_through_the_log_a_second_run_records_nothing() -> None:
    history = History().day(80)
    log = MemoryEventLog(ManualClock())
    await append(log, history.outgoing())
    recorder, bills = LogRecorder(log, history), Bills(log)
    first = await reconcile(log, bills, recorder)
    second = await reconcile(log, bills, recorder)
    assert first.corrections
    assert first.after.nanousd == first.billed_nanousd == second.before.nanousd
    assert second.corrections == ()
    assert recorder.calls == 1


async def test_a_bill_that_cannot_be_fetched_records_nothing() -> None:
    class Away:
        async def fetch(self) -> Sequence[Bill]:
            raise LogUnavailable("the provider does not answer")

    history = History().day(10)
    log = MemoryEventLog(ManualClock())
    await append(log, history.outgoing())
    recorder = LogRecorder(log, history)
    with pytest.raises(LogUnavailable):
        await reconcile(log, Away(), recorder)
    assert recorder.calls == 0
