"""UVI by policy, live: what a hot plan uses is folded and published, and then orders and refuses until it has cooled."""

from __future__ import annotations

import itertools

import msgspec
import pytest

from support.planning import HOUR_NS, NOW_NS, S, flat, plan, priced, routing, target, verdict, window, world
from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.publish import publish
from tidegate.estimator.state import State
from tidegate.events.config import Routing, UviBlocks
from tidegate.events.decision import DecisionMade, WindowUse
from tidegate.events.envelope import Envelope
from tidegate.events.quota import duration_ns
from tidegate.events.signals import UsageSettled
from tidegate.events.snapshots import RateSnapshot, pool_subject
from tidegate.events.types import AttemptId, EventId, PoolId, SourceId, TargetId, WindowId
from tidegate.planner.replay import verify

POOL = PoolId("p")
START_NS = NOW_NS - NOW_NS % HOUR_NS
_seqs = itertools.count(1)


class Hot:
    """A plan of a hundred requests an hour beside a dear metered target."""

    def __init__(self, strategy: str, blocks: UviBlocks | None) -> None:
        hourly = window("hour", "requests", 100)
        targets = [target("a", pool="p"), target("b", priced(900, 900))]
        self.routing: Routing = routing(targets, [flat("p", hourly)], strategy=strategy, uvi_blocks=blocks)
        self.state, self.version = State(), 0
        self.state.window_of(self.state.pool(POOL, 0), hourly.id, duration_ns(hourly), first_request=False)

    def use(self, at_ns: int, requests: int) -> None:
        for _ in range(requests):
            seq = next(_seqs)
            data = UsageSettled(
                attempt=AttemptId(f"a{seq}"), target=TargetId("a"), pool=POOL, route="code", basis="reported",
                outcome="completed", windows=(WindowUse(WindowId("hour"), START_NS, 1, HOUR_NS),), evidence=False,
            )  # fmt: skip
            envelope = Envelope(
                id=EventId(f"e{seq}"), type="UsageSettled", v=1, ts=at_ns, source=SourceId("gw@1"), seq=seq,
                data=msgspec.Raw(b"{}"),
            )  # fmt: skip
            fold(self.state, [Signal(0, envelope, data)])

    def decide(self, at_ns: int) -> DecisionMade:
        """On what is published now; it replays to the same bytes."""
        self.version += 1
        snapshot = RateSnapshot(
            subject=pool_subject(POOL),
            version=self.version,
            at_ns=at_ns,
            config=self.routing.digest(),
            evidence=0,
            pool=publish(self.state, at_ns, self.routing, [], [POOL]).pools[POOL],
        )
        made = plan(world(self.routing, snapshot), now_ns=at_ns)
        assert verify(made, self.routing, {snapshot.subject: snapshot}).outcome == "identical"
        return made


@pytest.mark.parametrize("strategy", ["cheapest", "declared", "adaptive"])
def test_a_plan_used_up_too_fast_is_refused_until_time_has_caught_up(strategy: str) -> None:
    hot = Hot(strategy, "critical")
    hot.use(START_NS + 60 * S, 1)
    assert hot.decide(START_NS + 61 * S).chosen == "a"
    hot.use(START_NS + 360 * S, 50)
    found = hot.decide(START_NS + 361 * S)
    assert (found.chosen, verdict(found, "a").reason) == ("b", "uvi")
    assert verdict(found, "a").retry_at_ns == START_NS + HOUR_NS
    assert hot.decide(START_NS + 3_000 * S).chosen == "a"


def test_what_is_only_stressed_comes_last_and_is_refused_in_hard_mode_alone() -> None:
    for blocks, reason in ((None, None), ("critical", None), ("stressed", "uvi")):
        hot = Hot("adaptive", blocks)  # type: ignore[arg-type]
        hot.use(START_NS + 720 * S, 45)  # 0.45 of the quota in 0.2 of the hour: 1.71 with the head start
        found = hot.decide(START_NS + 721 * S)
        assert (found.chosen, verdict(found, "a").reason) == ("b", reason)


def test_a_status_does_not_flip_with_every_refresh() -> None:
    hot = Hot("declared", "critical")
    hot.use(START_NS + 360 * S, 38)
    chosen = []
    for second in range(361, 700, 20):
        hot.use(START_NS + second * S, 1)
        chosen.append(hot.decide(START_NS + second * S).chosen)
    assert sum(one != other for one, other in itertools.pairwise(chosen)) <= 1
