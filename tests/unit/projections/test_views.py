"""What the named views say, checked against sums made by hand or in Python."""

from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest

from support.history import PRICE, History, S
from support.read_model import asked, dicts, filled, folded
from tidegate.events.clock import ManualClock
from tidegate.events.decision import WindowUse
from tidegate.events.dedup import RETIRE_AFTER_NS
from tidegate.events.ids import settlement_id
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.money import Tokens
from tidegate.events.requests import RequestAdmitted, RequestFinished, RequestRefused
from tidegate.events.signals import (
    AttemptFailed,
    AttemptStarted,
    QuotaObserved,
    SettlementCorrected,
    UsageSettled,
)
from tidegate.events.snapshots import Belief, PoolBelief, RateSnapshot, WindowBelief, pool_subject
from tidegate.events.topics import REQUESTS, SIGNALS, SNAPSHOTS
from tidegate.events.types import AttemptId, KeyId, PoolId, TargetId, WindowId

pytestmark = pytest.mark.slow  # each opens databases

BIG = 2**53 + 1
"""The first integer a float cannot hold."""


class Ledger(History):
    """A history written attempt by attempt."""

    def start(self, name: str, pool: str = "p", request: str = "r", tenant: str = "acme") -> None:
        started = AttemptStarted(
            attempt=AttemptId(name),
            target=TargetId("t"),
            pool=PoolId(pool),
            route="code",
            index=0,
            input_tokens=10,
            reserve_output_tokens=5,
            price=PRICE,
        )
        self.write(SIGNALS, pool, name, started, tenant=tenant, request=request, session="s")

    def settle(self, name: str, cost: int | None, pool: str = "p", **fields: Any) -> None:
        context = {"tenant": fields.pop("tenant", "acme"), "request": fields.pop("request", "r")}
        fields.setdefault("basis", "reported")
        fields.setdefault("outcome", "completed")
        settled = UsageSettled(
            attempt=AttemptId(name),
            target=TargetId("t"),
            pool=PoolId(pool),
            route="code",
            cost_nanousd=cost,
            **fields,
        )
        self.write(
            SIGNALS, pool, name, settled, event_id=settlement_id(AttemptId(name)), session="s", **context
        )

    def correct(self, name: str, delta: int, correction: int = 0, pool: str = "p", **tokens: int) -> None:
        corrected = SettlementCorrected(
            attempt=AttemptId(name),
            target=TargetId("t"),
            pool=PoolId(pool),
            delta_nanousd=delta,
            correction=correction,
            tokens=msgspec.convert(tokens, Tokens),
            evidence="invoice",
        )
        self.write(SIGNALS, pool, name, corrected, slot="rec")


async def test_the_ledger_is_settlements_plus_corrections_to_the_last_nanodollar(tmp_path: Path) -> None:
    made = Ledger()
    made.settle("a", BIG, tokens=Tokens(input_uncached=BIG, output=1))
    made.correct("a", -2, 0, input_uncached=BIG - 1, output=1)
    made.correct("a", +1, 1, input_uncached=BIG - 2, output=3)
    made.settle("b", 7)
    await filled(tmp_path / "m.duckdb", made)
    a, b = dicts(tmp_path / "m.duckdb", "SELECT * FROM v_ledger ORDER BY attempt")
    assert (a["settled_nanousd"], a["corrections"], a["delta_nanousd"]) == (BIG, 2, -1)
    assert a["ledger_nanousd"] == BIG - 1
    assert (a["input_uncached"], a["output"]) == (BIG - 2, 3)
    assert (b["ledger_nanousd"], b["corrections"], b["delta_nanousd"]) == (7, 0, 0)
    assert asked(tmp_path / "m.duckdb", "SELECT sum(ledger_nanousd) FROM v_ledger") == [(BIG + 6,)]


async def test_two_corrections_of_one_number_count_once_and_the_first_holds(tmp_path: Path) -> None:
    made = Ledger()
    made.settle("a", 100, basis="estimated")
    made.correct("a", -30, 0)
    made.correct("a", -30, 0)
    made.correct("a", -99, 0)
    await filled(tmp_path / "m.duckdb", made)
    assert asked(tmp_path / "m.duckdb", "SELECT corrections, ledger_nanousd FROM v_ledger") == [(1, 70)]
    assert asked(tmp_path / "m.duckdb", "SELECT delta_nanousd FROM v_corrections") == [(-30,)]


async def test_an_unknown_cost_is_null_until_a_correction_makes_it_known(tmp_path: Path) -> None:
    made = Ledger()
    made.settle("unknown", None, basis="estimated")
    made.settle("known-later", None, basis="estimated")
    made.correct("known-later", 0)
    await filled(tmp_path / "m.duckdb", made)
    path = tmp_path / "m.duckdb"
    assert asked(path, "SELECT attempt, ledger_nanousd FROM v_ledger ORDER BY attempt") == [
        ("known-later", 0),
        ("unknown", None),
    ]
    assert asked(path, "SELECT attempts, unpriced, unreported, ledger_nanousd FROM v_spend") == [(2, 1, 1, 0)]
    assert asked(path, "SELECT attempt FROM v_unreported") == [("unknown",)]


async def test_spend_belongs_to_the_day_of_the_settlement_whenever_it_is_corrected(tmp_path: Path) -> None:
    made = Ledger()
    made.settle("a", 10)
    made.clock.advance_ns(86_400 * S)
    made.correct("a", 5)
    made.settle("b", 1)
    await filled(tmp_path / "m.duckdb", made)
    spent = asked(tmp_path / "m.duckdb", "SELECT day::VARCHAR, ledger_nanousd FROM v_spend ORDER BY day")
    assert spent == [("2027-01-15", 15), ("2027-01-16", 1)]


async def test_sums_per_tenant_equal_sums_made_in_python(tmp_path: Path) -> None:
    history = History().day(120, candidates=6)
    expected: defaultdict[str, int] = defaultdict(int)
    tenant_of: dict[str, str] = {}
    for event in history.events:
        if isinstance(event.draft.data, UsageSettled):
            tenant_of[event.draft.data.attempt] = event.draft.tenant or ""
            expected[event.draft.tenant or ""] += event.draft.data.cost_nanousd or 0
        elif isinstance(event.draft.data, SettlementCorrected):
            expected[tenant_of[event.draft.data.attempt]] += event.draft.data.delta_nanousd
    await filled(tmp_path / "m.duckdb", history)
    for view in ("v_spend", "v_requests", "v_sessions"):
        found = asked(
            tmp_path / "m.duckdb", f"SELECT tenant, sum(ledger_nanousd) FROM {view} GROUP BY tenant"
        )
        assert {tenant: money for tenant, money in found if money} == expected


async def test_started_attempts_without_a_settlement_are_listed(tmp_path: Path) -> None:
    made = Ledger()
    made.start("open")
    made.start("done")
    made.settle("done", 1)
    await filled(tmp_path / "m.duckdb", made)
    assert asked(tmp_path / "m.duckdb", "SELECT attempt FROM v_unsettled") == [("open",)]
    outcomes = asked(tmp_path / "m.duckdb", "SELECT attempt, outcome FROM v_attempts ORDER BY attempt")
    assert outcomes == [("done", "completed"), ("open", "open")]


async def test_every_request_is_one_row_whatever_became_of_it(tmp_path: Path) -> None:
    history = History().day(120)
    seen = {e.draft.request for e in history.events if e.topic is REQUESTS}
    await filled(tmp_path / "m.duckdb", history)
    rows = dicts(tmp_path / "m.duckdb", "SELECT * FROM v_requests")
    assert Counter(row["request"] for row in rows) == Counter(seen)
    ended = {
        e.draft.request: e.draft.data for e in history.events if isinstance(e.draft.data, RequestFinished)
    }
    refused = {
        e.draft.request: e.draft.data for e in history.events if isinstance(e.draft.data, RequestRefused)
    }
    for row in rows:
        if row["request"] in refused:
            assert (row["outcome"], row["code"]) == ("refused", refused[row["request"]].code)
        else:
            assert row["outcome"] == ended[row["request"]].outcome
            assert row["attempts"] == ended[row["request"]].attempts
        assert row["tenant"]
        assert row["admitted_ns"]


async def test_a_request_that_has_not_ended_is_open(tmp_path: Path) -> None:
    history = History()
    admitted = RequestAdmitted(key=KeyId("k"), route="code", dialect="openai", endpoint="/v1/responses")
    history.write(REQUESTS, "s", "r", admitted, tenant="acme", request="r", session="s")
    await filled(tmp_path / "m.duckdb", history)
    assert asked(tmp_path / "m.duckdb", "SELECT outcome, ledger_nanousd FROM v_requests") == [("open", None)]


async def test_a_request_whose_gateway_ended_before_it_is_lost_and_its_session_adds_up(
    tmp_path: Path,
) -> None:
    """After a kill -9 nobody writes how it ended; that its source is closed says that nobody will."""
    made = Ledger()
    admitted = RequestAdmitted(key=KeyId("k"), route="code", dialect="openai", endpoint="/v1/responses")
    for slot, name in (("gw-0", "killed"), ("gw-1", "living")):
        made.write(REQUESTS, "s", name, admitted, slot=slot, tenant="acme", request=name, session="s")
    made.start("at", request="killed")
    made.settle("at", 7, request="killed", basis="estimated", outcome="orphaned")
    ended = RequestFinished(
        key=KeyId("k"), route="code", outcome="completed", status=200, attempts=1, decision="d"
    )
    for name in ("done", "killed too"):
        made.write(REQUESTS, "s", name, admitted, tenant="acme", request=name, session="s")
    made.write(REQUESTS, "s", "done", ended, tenant="acme", request="done", session="s")
    outcomes = "SELECT request, outcome, attempts, ledger_nanousd FROM v_requests ORDER BY request"
    await filled(tmp_path / "before.duckdb", made)
    before = {request: outcome for request, outcome, *_ in asked(tmp_path / "before.duckdb", outcomes)}
    assert before == {"done": "completed", "killed": "open", "killed too": "open", "living": "open"}
    made.close_source("gw-0")
    await filled(tmp_path / "m.duckdb", made)
    assert asked(tmp_path / "m.duckdb", outcomes) == [
        ("done", "completed", 1, None),
        ("killed", "lost", 1, 7),
        ("killed too", "lost", 0, None),
        ("living", "open", 0, None),
    ]
    counts = "SELECT requests, completed, refused, failed, cancelled, lost FROM v_sessions"
    assert asked(tmp_path / "m.duckdb", counts) == [(4, 1, 0, 0, 0, 2)]


async def test_a_request_stays_lost_when_the_mark_of_its_source_has_retired(tmp_path: Path) -> None:
    made = Ledger()
    admitted = RequestAdmitted(key=KeyId("k"), route="code", dialect="openai", endpoint="/v1/responses")
    made.write(REQUESTS, "s", "r", admitted, tenant="acme", request="r", session="s")
    made.close_source("gw-0")
    path, clock = tmp_path / "m.duckdb", ManualClock()
    log = MemoryEventLog(clock)
    first = made.outgoing()
    await log.append(first)
    clock.advance_ns(RETIRE_AFTER_NS)
    made.write(REQUESTS, "s", "other", admitted, slot="gw-1", tenant="acme", request="other", session="s")
    made.close_source("gw-1")
    await log.append(made.outgoing()[len(first) :])
    await folded(log, path)
    sources = asked(path, "SELECT count(*) FROM marks WHERE topic = 'tidegate.requests.v1'")
    assert sources == [(1,)], "the mark has not retired"
    assert asked(path, "SELECT DISTINCT outcome FROM v_requests WHERE request = 'r'") == [("lost",)]


async def test_a_request_with_two_attempts_is_not_counted_twice(tmp_path: Path) -> None:
    made = Ledger()
    admitted = RequestAdmitted(key=KeyId("k"), route="code", dialect="openai", endpoint="/v1/responses")
    made.write(REQUESTS, "s", "r", admitted, tenant="acme", request="r", session="s")
    for name, cost in (("a", 3), ("b", 4)):
        made.start(name)
        made.settle(name, cost)
    await filled(tmp_path / "m.duckdb", made)
    path = tmp_path / "m.duckdb"
    assert asked(path, "SELECT attempts, ledger_nanousd FROM v_requests") == [(2, 7)]
    assert asked(path, "SELECT requests, attempts, failed_over, ledger_nanousd FROM v_sessions") == [
        (1, 2, 1, 7)
    ]


async def test_failures_of_one_attempt_do_not_multiply_it(tmp_path: Path) -> None:
    made = Ledger()
    made.start("a")
    for status in (429, 503):
        failed = AttemptFailed(
            attempt=AttemptId("a"),
            target=TargetId("t"),
            pool=PoolId("p"),
            cause="unavailable" if status == 503 else "rate_limited",
            phase="wait_headers",
            rule="r",
            status=status,
        )
        made.write(SIGNALS, "p", "a", failed, tenant="acme", request="r")
    made.settle("a", 0, basis="none", outcome="failed")
    await filled(tmp_path / "m.duckdb", made)
    rows = asked(tmp_path / "m.duckdb", "SELECT failures, cause, status, ledger_nanousd FROM v_attempts")
    assert rows == [(2, "unavailable", 503, 0)]


async def test_drift_compares_what_was_planned_with_what_it_became(tmp_path: Path) -> None:
    history = History().day(120)
    await filled(tmp_path / "m.duckdb", history)
    rows = dicts(tmp_path / "m.duckdb", "SELECT * FROM v_drift")
    settled = {
        e.draft.data.attempt: e.draft.data for e in history.events if isinstance(e.draft.data, UsageSettled)
    }
    assert {row["attempt"] for row in rows} == set(settled)
    assert len(rows) == len(settled)
    moved = [row for row in rows if row["failed_over"]]
    assert moved
    for row in rows:
        assert row["failed_over"] == (row["planned_target"] != row["actual_target"])
        if row["ledger_nanousd"] is None:
            assert row["error_nanousd"] is None
        else:
            assert row["error_nanousd"] == row["ledger_nanousd"] - row["expected_nanousd"]


async def test_a_masked_failure_is_one_the_client_never_saw(tmp_path: Path) -> None:
    await filled(tmp_path / "m.duckdb", History().day(120))
    rows = dicts(tmp_path / "m.duckdb", "SELECT * FROM v_failures")
    assert any(row["masked"] for row in rows)
    assert all(row["masked"] == (row["request_outcome"] == "completed") for row in rows)


async def test_the_newest_belief_of_a_window_stands_beside_the_units_settled(tmp_path: Path) -> None:
    history = History().day(60)
    units = sum(
        use.units
        for e in history.events
        if isinstance(e.draft.data, (UsageSettled, SettlementCorrected))
        for use in e.draft.data.windows
    )
    await filled(tmp_path / "m.duckdb", history)
    (row,) = dicts(tmp_path / "m.duckdb", "SELECT * FROM v_windows")
    newest = asked(tmp_path / "m.duckdb", "SELECT max(version) FROM r_windows")
    assert (row["version"], row["settled_units"], row["shadow_nanousd"]) == (newest[0][0], units, 0.5)
    (use,) = dicts(tmp_path / "m.duckdb", "SELECT * FROM v_window_use")
    assert use["units"] == units


async def test_periods_of_two_gateways_that_overlap_are_one_and_the_next_period_is_not(
    tmp_path: Path,
) -> None:
    hour = 3_600 * S
    start = 1_800_000_000 * S
    made = Ledger()
    uses = ((start, 10), (start + 60 * S, 5), (start - hour, 100), (start + hour, 1_000))
    for n, (began, units) in enumerate(uses):
        use = WindowUse(WindowId("5h"), began, units, hour, first_request=True)
        made.settle(f"a{n}", 0, windows=(use,))
    belief = WindowBelief(
        window=WindowId("5h"),
        period_start_ns=start,
        resets_at_ns=start + hour,
        used=15,
        limit=100,
        capacity=Belief(100.25, 16.0),
        outside=Belief(7.0, 4.0, prior=True),
        outside_demand=3.5,
        amortised_nanousd=2.5,
        told_at_ns=start + 7,
    )
    snapshot = RateSnapshot(
        subject=pool_subject(PoolId("p")),
        version=1,
        at_ns=start,
        config="c",
        evidence=0,
        pool=PoolBelief(windows=(belief,)),
    )
    made.write(SNAPSHOTS, "p", snapshot.subject, snapshot, slot="est")
    await filled(tmp_path / "m.duckdb", made)
    assert asked(tmp_path / "m.duckdb", "SELECT used, settled_units FROM v_windows") == [(15, 15)]
    told = (
        "SELECT capacity, capacity_sd, outside, outside_demand, amortised_nanousd, told_at_ns FROM v_windows"
    )
    assert asked(tmp_path / "m.duckdb", told) == [(100.25, 4.0, None, 3.5, 2.5, start + 7)]


async def test_a_window_taken_out_of_the_config_is_believed_no_more(tmp_path: Path) -> None:
    made = Ledger()
    for version, names in ((1, ("5h", "week")), (2, ("5h",)), (3, ())):
        snapshot = RateSnapshot(
            subject=pool_subject(PoolId("p" if version < 3 else "q")),
            version=version,
            at_ns=version,
            config="c",
            evidence=0,
            pool=PoolBelief(
                windows=tuple(
                    WindowBelief(window=WindowId(name), period_start_ns=0, resets_at_ns=None, used=0, limit=9)
                    for name in names
                )
            ),
        )
        made.write(SNAPSHOTS, "p", snapshot.subject, snapshot, slot="est")
    await filled(tmp_path / "m.duckdb", made)
    assert asked(tmp_path / "m.duckdb", "SELECT pool, window_id, version FROM v_windows") == [("p", "5h", 2)]


async def test_quota_is_what_was_said_last_not_a_mixture(tmp_path: Path) -> None:
    made = Ledger()
    for remaining in (5, None):
        seen = QuotaObserved(
            target=TargetId("t"), pool=PoolId("p"), scope="requests", limit=None if remaining else 9,
            remaining=remaining,
        )  # fmt: skip
        made.write(SIGNALS, "p", "t", seen)
    await filled(tmp_path / "m.duckdb", made)
    assert asked(tmp_path / "m.duckdb", "SELECT quota_limit, remaining FROM v_quota") == [(9, None)]


async def test_decisions_show_their_price_and_the_next_best(tmp_path: Path) -> None:
    history = History().day(60)
    await filled(tmp_path / "m.duckdb", history)
    for row in dicts(tmp_path / "m.duckdb", "SELECT * FROM v_decisions"):
        if row["chosen"] is None:
            assert (row["admitted"], row["price_nanousd"], row["next_price_nanousd"]) == (0, None, None)
        else:
            assert row["price_nanousd"] is not None
            assert row["candidates"] == 4
        assert row["seed"] >= 0
    chosen = asked(tmp_path / "m.duckdb", "SELECT count(*) FROM v_candidates WHERE chosen AND rank = 0")
    decided = asked(tmp_path / "m.duckdb", "SELECT count(*) FROM v_decisions WHERE chosen IS NOT NULL")
    assert chosen == decided


async def test_seeds_of_64_bits_are_exact(tmp_path: Path) -> None:
    history = History().day(40)
    seeds = {
        e.draft.data.decision: e.draft.data.seed for e in history.events if e.draft.type == "DecisionMade"
    }
    assert any(seed > 2**63 for seed in seeds.values())
    await filled(tmp_path / "m.duckdb", history)
    assert dict(asked(tmp_path / "m.duckdb", "SELECT decision, seed FROM v_decisions")) == seeds


async def test_snapshots_show_the_newest_of_every_subject(tmp_path: Path) -> None:
    await filled(tmp_path / "m.duckdb", History().day(40))
    path = tmp_path / "m.duckdb"
    subjects = asked(path, "SELECT count(*), count(DISTINCT subject) FROM v_snapshots")
    assert subjects == [(5, 5)]
    (belief,) = dicts(path, "SELECT * FROM v_snapshots WHERE subject = 'target:metered'")
    assert (belief["ttft_ms_mean"], belief["ttft_ms_var"], belief["success_prior"]) == (310.5, 2.25, True)
    assert belief["price_cache_read_mean"] is None
