"""Hours of a whole system in seconds: quota periods, an outage, faults, a kill-switch, clients that leave."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
from collections import Counter, defaultdict
from collections.abc import Iterable
from itertools import pairwise
from pathlib import Path
from statistics import median

import pytest

from support.audit import clean_rows, stored_rows
from support.log_reading import read_all
from support.simulation import (
    HOUR_S,
    OUTAGE,
    START_S,
    SWITCHED_OFF,
    WINDOW_REQUESTS,
    WINDOW_S,
    Event,
    History,
    is_busy,
    simulate,
)
from tidegate.analytics.ledger import read_ledger
from tidegate.analytics.reconcile import plan
from tidegate.analytics.replay_verify import verify
from tidegate.events.decision import DecisionMade
from tidegate.events.log.port import TopicPartition
from tidegate.events.partition import PARTITIONS
from tidegate.events.requests import RequestAdmitted, RequestFinished, RequestRefused
from tidegate.events.signals import AttemptFailed, AttemptStarted, UsageSettled
from tidegate.events.snapshots import RateSnapshot, WindowBelief
from tidegate.events.topics import SIGNALS
from tidegate.planner.replay import verify as replay_one

pytestmark = pytest.mark.slow

HOURS = 2.0
SHORT_HOURS = 0.75
SIGNALS_PLACES = [TopicPartition(SIGNALS.name, partition) for partition in range(PARTITIONS)]
FAR_S = 120.0
"""What the system may need to notice a change in traffic that is minutes apart."""


@pytest.fixture(scope="module")
def history() -> History:
    """Four periods of the window: busy, calm, busy, calm."""
    return simulate(1, HOURS)


@pytest.fixture(scope="module")
def another() -> History:
    """A shorter run on another seed."""
    return simulate(2, SHORT_HOURS)


def check_requests(run: History) -> None:
    """What the clients asked, and what the log says of it, are the same requests, each with one end."""
    admitted = Counter(event.envelope.request for event in run.events_of(RequestAdmitted))
    finished = {event.envelope.request: event.data for event in run.events_of(RequestFinished)}
    refused = Counter(event.envelope.request for event in run.events_of(RequestRefused))
    ends = Counter(event.envelope.request for event in run.events_of(RequestFinished)) + refused
    assert set(admitted) <= set(ends)
    assert set(ends.values()) == {1}
    assert set(admitted.values()) == {1}
    unauthenticated = sum(one.status == 401 for one in run.asked)
    assert len(run.asked) == len(ends) + unauthenticated
    for one in run.asked:
        if one.status == 401:
            assert one.request not in ends
        elif one.request is not None:
            assert one.request in ends
        if one.fate == "finished":
            assert finished[one.request].outcome == "completed", one
        elif one.fate == "failed" and one.request in finished:
            assert finished[one.request].outcome in {"failed", "truncated"}, one


def check_settlements(run: History) -> None:
    """One start, one settlement; and per request as many attempts as its end says."""
    started = Counter(data.attempt for data in run.of(AttemptStarted))
    settled = Counter(data.attempt for data in run.of(UsageSettled))
    assert started == settled
    assert set(started.values()) == {1}
    of_request = Counter(event.envelope.request for event in run.events_of(AttemptStarted))
    for event in run.events_of(RequestFinished):
        assert event.data.attempts == of_request[event.envelope.request]


def check_money(run: History) -> None:
    """The ledger equals the providers' bills, attempt by attempt; a second look finds nothing to correct."""
    assert run.reconciliation.is_balanced
    ledger = asyncio.run(read_ledger(run.log()))
    billed: defaultdict[str | None, int] = defaultdict(int)
    for bill in run.bills:
        for line in bill.lines:
            billed[line.attempt] += line.cost_nanousd
    assert {a: entry.ledger_nanousd for a, entry in ledger.entries.items()} == {
        attempt: billed.get(attempt, 0) for attempt in ledger.entries
    }
    assert billed.keys() <= ledger.entries.keys()
    assert ledger.open == {}
    again = plan(ledger, run.bills)
    assert again.corrections == ()
    assert again.is_balanced
    # What the answers reported needed no correction: only what was hidden, cut or left was estimated.
    corrected = {correction.data.attempt for correction in run.reconciliation.corrections}
    assert {ledger.entries[attempt].basis for attempt in corrected} <= {"estimated"}


def periods(events: Iterable[Event], run: History) -> Counter[int]:
    """How many of the events lie in each period of the window."""
    return Counter(int(run.at_s(event) // WINDOW_S) for event in events)


def most_in_flight(run: History) -> int:
    """The most attempts that were open at one time."""
    steps = [(event.envelope.ts, 1) for event in run.events_of(AttemptStarted)]
    steps += [(event.envelope.ts, -1) for event in run.events_of(UsageSettled)]
    most = now = 0
    for _, step in sorted(steps):
        now += step
        most = max(most, now)
    return most


def check_quota(run: History) -> None:
    """No period uses more than its quota: what a plan counts on is taken in the step that decides."""
    unbilled = {data.attempt for data in run.of(UsageSettled) if data.basis == "none"}
    on_plan = [
        event
        for event in run.events_of(AttemptStarted)
        if event.data.pool == "subscription" and event.data.attempt not in unbilled
    ]
    for period, starts in periods(on_plan, run).items():
        assert starts <= WINDOW_REQUESTS, f"period {period}"
    asked = [line for line in run.lines["plan"] if line.fault is None]
    refused = sum(line.status == 429 for line in asked)
    assert refused <= most_in_flight(run), "the provider had to say what we should have known"


def check_whole(run: History) -> None:
    check_requests(run)
    check_settlements(run)
    check_money(run)
    check_quota(run)


def test_every_request_is_accounted_for(history: History) -> None:
    check_requests(history)
    fates = Counter(one.fate for one in history.asked)
    assert fates["finished"] > 0.8 * len(history.asked)
    assert min(fates["failed"], fates["refused"], fates["left"]) > 0


def test_every_attempt_has_exactly_one_settlement(history: History) -> None:
    check_settlements(history)
    endings = {(data.basis, data.outcome) for data in history.of(UsageSettled)}
    assert endings >= {
        ("reported", "completed"),
        ("estimated", "cancelled"),
        ("estimated", "failed"),
        ("none", "failed"),
    }


def test_the_ledger_equals_the_providers_bills_after_corrections(history: History) -> None:
    check_money(history)
    assert history.reconciliation.corrections
    assert history.reconciliation.before.nanousd != history.reconciliation.after.nanousd


def test_the_quota_of_a_period_is_used_up_and_never_passed(history: History) -> None:
    check_quota(history)
    on_plan = [event for event in history.events_of(AttemptStarted) if event.data.pool == "subscription"]
    used = periods(on_plan, history)
    assert [used[period] >= WINDOW_REQUESTS for period in range(4)] == [True, False, True, False]


def test_a_new_period_brings_the_plan_back(history: History) -> None:
    for period in range(1, 4):
        begin_s = period * WINDOW_S
        early = [d for d in history.events_of(DecisionMade) if begin_s <= history.at_s(d) < begin_s + FAR_S]
        verdicts = [verdict for d in early for verdict in d.data.candidates if verdict.pool == "subscription"]
        assert "window_exhausted" not in {verdict.reason for verdict in verdicts}, f"period {period}"
        # Quota that is plenty costs next to nothing: where no fault has closed the target, it is taken, once
        # something is believed of the new period. Until then it has its prior price, about that of the others.
        first = [(d.data.candidates[0], d.data.chosen) for d in early]
        takes = [chosen for plan, chosen in first if plan.reason is None and plan.p_exhaust is not None]
        assert takes, f"period {period}"
        assert all(chosen is not None and chosen.startswith("plan-") for chosen in takes), f"period {period}"


def beliefs(run: History) -> list[tuple[float, WindowBelief]]:
    """What was believed of the window, and when."""
    return [
        (run.at_s(event), window)
        for event in run.events_of(RateSnapshot)
        if event.data.pool is not None
        for window in event.data.pool.windows
    ]


def test_the_shadow_price_and_the_velocity_follow_the_traffic(history: History) -> None:
    calm, spent = [], []
    for at_s, window in beliefs(history):
        since_s = at_s % WINDOW_S
        if is_busy(at_s) and window.used == WINDOW_REQUESTS:
            spent.append(window)
        elif not is_busy(at_s) and int(at_s // WINDOW_S) % 2 == 1 and since_s > WINDOW_S / 2:
            calm.append(window)
    dear, cheap = ([window.shadow_nanousd for window in found] for found in (spent, calm))
    assert median(dear) > 10 * median(cheap) > 0
    assert {window.status for window in spent} == {"exhausted"}
    assert {window.status for window in calm} == {"ok"}
    assert max(window.uvi or 0.0 for window in calm) < 0.8
    assert max(window.uvi or 0.0 for _, window in beliefs(history)) > 1.1


def test_the_forecast_sees_the_exhaustion_coming(history: History) -> None:
    for period in (0, 2):
        of_period = [(at_s, w) for at_s, w in beliefs(history) if int(at_s // WINDOW_S) == period]
        spent_s = next(at_s for at_s, window in of_period if window.used >= WINDOW_REQUESTS)
        minutes = [w.p_exhaust for at_s, w in of_period if spent_s - 60 > at_s > spent_s - 240]
        assert len(minutes) > 5
        assert None not in minutes
        assert median(p for p in minutes if p is not None) > 0.6


def test_an_outage_is_routed_around_and_ends(history: History) -> None:
    begin_s, end_s = history.outage_s
    inside = [one for one in history.asked if begin_s < one.at_s < end_s and one.fault is None]
    assert {one.fate for one in inside if one.status in {None, 200, 502, 503}} <= {"finished", "left"}
    assert len(inside) > 10
    failed = [
        event
        for event in history.events_of(AttemptFailed)
        if event.data.rule == "upstream_connect_failed" and event.data.pool == OUTAGE
    ]
    assert failed
    assert all(begin_s <= history.at_s(event) <= end_s + 1 for event in failed)
    assert len(failed) < len(inside) / 2, "every request tried a target that was known to be down"
    back = [
        event
        for event in history.events_of(UsageSettled)
        if event.data.pool == OUTAGE and event.data.outcome == "completed" and history.at_s(event) > end_s
    ]
    assert back, "the target never came back"


def test_a_failover_reaches_the_client_as_one_good_answer(history: History) -> None:
    masked = [one for one in history.asked if one.fate == "finished" and one.attempts > 1]
    assert masked
    assert {one.status for one in masked} == {200}


def test_a_target_that_was_switched_off_is_asked_no_more(history: History) -> None:
    off_s = history.switched_s + 1.0
    before = [d for d in history.events_of(AttemptStarted) if history.at_s(d) < off_s]
    after = [d for d in history.events_of(AttemptStarted) if history.at_s(d) >= off_s]
    assert any(event.data.target == SWITCHED_OFF for event in before)
    assert after
    assert not any(event.data.target == SWITCHED_OFF for event in after)


def test_every_decision_replays_bit_by_bit(history: History) -> None:
    report = asyncio.run(verify(history.log(), replay_one))
    assert report.decisions == len(history.of(DecisionMade)) > 200
    assert (report.identical, report.different) == (report.decisions, 0), report.examples


def test_the_estimators_state_is_a_clean_fold_of_the_log(history: History) -> None:
    stored = asyncio.run(stored_rows(history.log()))
    signals = asyncio.run(read_all(history.log(), SIGNALS_PLACES))
    expected = clean_rows(signals, history.settings.routing())
    # Pools without a window hold nothing that a row would keep.
    assert stored == {subject: expected[subject] for subject in stored}
    assert {subject for subject in expected if subject.startswith("target:")} <= stored.keys()
    assert "pool:subscription" in stored


def test_snapshots_have_dense_versions(history: History) -> None:
    versions: defaultdict[str, list[int]] = defaultdict(list)
    for event in history.events_of(RateSnapshot):
        versions[event.data.subject].append(event.data.version)
    for found in versions.values():
        assert all(after == before + 1 for before, after in pairwise(found))


def test_time_in_the_log_is_the_simulations_own(history: History) -> None:
    end_ns = (START_S + HOURS * HOUR_S + 3_600) * 1e9
    assert all(START_S * 1e9 <= event.record.append_ns <= end_ns for event in history.events)
    assert max(history.at_s(event) for event in history.events) > HOURS * HOUR_S - FAR_S


def test_another_seed_keeps_every_promise(another: History) -> None:
    check_whole(another)


def test_the_same_seed_gives_the_same_bytes_in_a_process_of_another_hash_seed(another: History) -> None:
    tests = Path(__file__).parent.parent
    done = subprocess.run(
        [sys.executable, "-m", "support.simulation", "2", str(SHORT_HOURS)],
        env={**os.environ, "PYTHONHASHSEED": "1", "PYTHONPATH": _path(tests)},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout.split()[-1] == another.digest()


def test_other_seeds_give_other_histories() -> None:
    assert simulate(4, 0.05).digest() != simulate(5, 0.05).digest()


def _path(tests: Path) -> str:
    return os.pathsep.join([str(tests), *filter(None, [os.environ.get("PYTHONPATH")])])


@pytest.mark.nightly
@pytest.mark.parametrize("seed", range(100, 120))
def test_many_seeds_keep_every_promise(seed: int) -> None:
    check_whole(simulate(seed, 1.0))
