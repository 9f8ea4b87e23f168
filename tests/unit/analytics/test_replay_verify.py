"""Replay from the log alone: which inputs it finds, what it counts."""

from collections.abc import Mapping
from typing import Any

import msgspec
import pytest

from support.history import History, append
from support.read_model import memory_log
from tidegate.analytics.history import Watch
from tidegate.analytics.replay_verify import MAX_EXAMPLES, Only, verify
from tidegate.events.config import Routing
from tidegate.events.decision import DecisionMade
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.events.snapshots import RateSnapshot, pool_subject, target_subject
from tidegate.events.topics import CONTROL, REQUESTS, SNAPSHOTS


class Verdict(msgspec.Struct):
    outcome: str
    detail: str | None = None


class Judge:
    """Records what it is given and answers what the test wants."""

    def __init__(self, outcome: str = "identical") -> None:
        self.outcome = outcome
        self.seen: list[tuple[DecisionMade, Routing, dict[str, RateSnapshot]]] = []

    def __call__(
        self, decision: DecisionMade, routing: Routing, snapshots: Mapping[str, RateSnapshot], /
    ) -> Verdict:
        self.seen.append((decision, routing, dict(snapshots)))
        return Verdict(self.outcome, None if self.outcome == "identical" else "rank: 0 != 1")


def decisions(history: History) -> dict[str, DecisionMade]:
    return {
        e.draft.data.decision: e.draft.data for e in history.events if isinstance(e.draft.data, DecisionMade)
    }


async def test_every_decision_gets_its_config_and_exactly_the_snapshot_versions_it_read() -> None:
    history, judge = History().day(120), Judge()
    report = await verify(await memory_log(history.outgoing()), judge)
    made = decisions(history)
    assert (report.decisions, report.identical, report.examples) == (len(made), len(made), ())
    assert report.is_clean
    assert any(snapshots for _, _, snapshots in judge.seen)
    for decision, routing, snapshots in judge.seen:
        assert decision == made[decision.decision]
        assert routing.digest() == decision.config
        wanted = {
            (target_subject(c.target), c.target_version) for c in decision.candidates if c.target_version
        } | {(pool_subject(c.pool), c.pool_version) for c in decision.candidates if c.pool_version}
        assert {(subject, snapshot.version) for subject, snapshot in snapshots.items()} == wanted


async def test_a_decision_the_relay_sent_twice_is_replayed_once() -> None:
    history, judge = History().day(20), Judge()
    log = await memory_log(history.outgoing())
    for record in history.outgoing():
        if record.topic == REQUESTS.name:
            await log.append([record])
    report = await verify(log, judge)
    assert report.decisions == len(decisions(history))


async def test_filters_take_route_tenant_and_time() -> None:
    history = History().day(60)
    log = await memory_log(history.outgoing())
    made = list(decisions(history).values())
    middle = sorted(decision.now_ns for decision in made)[len(made) // 2]
    for only, expected in (
        (Only(tenant="acme"), [d for d in made if d.ask.tenant == "acme"]),
        (Only(route="other"), []),
        (Only(route="code", since_ns=middle), [d for d in made if d.now_ns >= middle]),
    ):
        judge = Judge()
        report = await verify(log, judge, only)
        assert {d.decision for d, _, _ in judge.seen} == {d.decision for d in expected}
        assert report.decisions == len(expected)


@pytest.mark.parametrize("outcome", ["different", "other_version", "input_missing"])
async def test_what_is_not_identical_is_counted_apart_with_examples(outcome: str) -> None:
    history = History().day(60)
    report = await verify(await memory_log(history.outgoing()), Judge(outcome))
    assert getattr(report, outcome) == report.decisions > MAX_EXAMPLES
    assert report.identical == 0
    assert report.is_clean == (outcome == "other_version")
    assert len(report.examples) == MAX_EXAMPLES
    assert {(example.outcome, example.detail) for example in report.examples} == {(outcome, "rank: 0 != 1")}


async def test_a_record_that_cannot_be_read_is_a_finding_with_its_place() -> None:
    records = History().day(20).outgoing()
    spoilt = next(at for at, each in enumerate(records) if b'"DecisionMade"' in (each.value or b""))
    value, where = records[spoilt].value or b"", records[spoilt].partition
    clean = await verify(await memory_log(records), Judge())
    for bad in (
        b"{" + value[2:],  # no envelope
        value.replace(b'"DecisionMade"', b'"DecisionMadf"'),  # perhaps one of the future
        value.replace(b'"now_ns":', b'"now_ns":99999999999'),  # a number that nobody holds
        value.replace(b'"now_ns":', b'"then_ns":'),  # does not fit
    ):
        assert bad != value
        records[spoilt] = records[spoilt]._replace(value=bad)
        report = await verify(await memory_log(records), Judge())
        assert (report.unreadable, report.decisions) == (1, clean.decisions - 1)
        assert report.identical == report.decisions
        assert not report.is_clean
        (example,) = report.examples
        assert example.outcome == "unreadable"
        assert example.decision.startswith(f"{REQUESTS.name}/{where}/")
        assert example.detail


async def test_many_unreadable_records_leave_room_for_what_differs() -> None:
    junk = [Outgoing(REQUESTS.name, at % 12, b"x", b"junk") for at in range(30)]
    report = await verify(await memory_log([*junk, *History().day(60).outgoing()]), Judge("different"))
    assert report.unreadable == 30
    assert {example.outcome for example in report.examples} == {"unreadable", "different"}
    assert len(report.examples) == MAX_EXAMPLES


async def test_what_could_not_be_read_before_the_time_asked_for_is_no_finding() -> None:
    history = History().day(20)
    log = await memory_log([Outgoing(REQUESTS.name, 0, b"x", b"junk")])
    appended_ns = log.store.partitions[TopicPartition(REQUESTS.name, 0)].history[0].append_ns
    await append(log, history.outgoing())
    assert (await verify(log, Judge(), Only(since_ns=appended_ns))).unreadable == 1
    assert (await verify(log, Judge(), Only(since_ns=appended_ns + 1))).unreadable == 0


async def test_a_config_that_was_never_published_is_a_missing_input() -> None:
    history, judge = History(), Judge()
    made = History().day(20)
    decision = msgspec.structs.replace(next(iter(decisions(made).values())), config="sha256:none")
    history.write(REQUESTS, "s", "r", decision, tenant="acme", request="r", session="s")
    report = await verify(await memory_log(history.outgoing()), judge)
    assert (report.input_missing, judge.seen) == (1, [])
    assert "sha256:none" in report.examples[0].detail


async def test_snapshots_the_log_no_longer_holds_are_left_to_the_planner_to_judge() -> None:
    history, judge = History().day(60), Judge()
    log = await memory_log(history.outgoing())
    for where, part in log.store.partitions.items():
        if "snapshots" in where.topic:
            part.history.clear()
    await verify(log, judge)
    assert all(snapshots == {} for _, _, snapshots in judge.seen)


async def test_types_it_does_not_read_may_be_unknown() -> None:
    future = b'{"id":"x","type":"FromTheFuture","v":1,"ts":1,"source":"gw","seq":1,"data":{}}'
    log = await memory_log([Outgoing(REQUESTS.name, 0, b"x", future)])
    report = await verify(log, Judge())
    assert (report.decisions, report.is_clean) == (0, False)


async def test_whoever_watches_is_told_each_phase_and_how_far_it_is() -> None:
    told: dict[str, list[tuple[int, int]]] = {}

    def phases(name: str) -> Watch:
        steps = told.setdefault(name, [])
        return lambda done, total: steps.append((done, total))

    await verify(await memory_log(History().day(60).outgoing()), Judge(), phases=phases)
    assert list(told) == ["finding decisions", "reading snapshots", "replaying"]
    for steps in told.values():
        assert steps == sorted(steps)
        assert steps[0][0] == 0
        assert steps[-1][0] == steps[-1][1] > 0


async def test_one_missing_input_among_identical_ones_is_not_clean() -> None:
    history = History().day(20)
    lost = msgspec.structs.replace(
        next(iter(decisions(history).values())), config="sha256:none", decision="lost"
    )
    history.write(REQUESTS, "s", "r", lost, tenant="acme", request="r", session="s")
    report = await verify(await memory_log(history.outgoing()), Judge())
    assert (report.input_missing, report.identical) == (1, report.decisions - 1)
    assert not report.is_clean


async def test_records_that_are_no_event_stop_no_replay() -> None:
    history = History().day(20)
    poison = [Outgoing(topic.name, 0, b"poison", b"\xff") for topic in (CONTROL, REQUESTS, SNAPSHOTS)]
    report = await verify(await memory_log([*poison, *history.outgoing(), *poison]), Judge())
    assert report.identical == report.decisions == len(decisions(history))


async def test_decisions_made_while_it_reads_are_left_for_the_next_run() -> None:
    history = History().day(20)
    log = await memory_log(history.outgoing())
    later = History(seed=3).day(5)

    class Busy(Judge):
        def __call__(self, *given: Any) -> Verdict:
            if not self.seen:
                log.put([e.outgoing() for e in later.events if e.topic is REQUESTS], marker=False)
            return super().__call__(*given)

    report = await verify(log, Busy())
    assert report.decisions == len(decisions(history))
