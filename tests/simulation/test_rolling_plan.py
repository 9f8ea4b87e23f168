"""A plan with a rolling window, also with peak hours: planner and estimator against the simulator's own count of the same window.

The provider counts every use to the moment, ours is counted by slices: it must never be asked for more than it gives,
and little of what it gives may stay unused.
"""

from __future__ import annotations

import itertools
import random
from typing import Literal

import msgspec
import pytest

from support.planning import NOW_NS, S, ask, flat, priced, routing, target, verdict
from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.publish import publish
from tidegate.estimator.state import State
from tidegate.events.config import Peak, Window
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Envelope
from tidegate.events.quota import duration_ns
from tidegate.events.signals import UsageSettled
from tidegate.events.snapshots import RateSnapshot, pool_subject
from tidegate.events.types import AttemptId, DecisionId, EventId, PoolId, SourceId, TargetId, WindowId
from tidegate.planner.decide import decide
from tidegate.planner.overlay import Overlay
from tidegate.planner.view import View, view_of, with_snapshots
from tidegate.simulator.config import PeakRule, WindowRule
from tidegate.simulator.windows import window_of

POOL, TARGET = PoolId("p"), TargetId("a")
DURATION_S, PUBLISH_EVERY = 600.0, 6
_seqs = itertools.count(1)


class Plan:
    """One gateway and one estimator in front of the plan."""

    def __init__(self, unit: Literal["requests", "tokens"], limit: int, peaks: tuple[Peak, ...]) -> None:
        window = Window(
            id=WindowId("10m"), unit=unit, limit=limit, duration_s=DURATION_S, kind="rolling", peaks=peaks
        )
        self.routing = routing([target("a", priced(1, 4), pool="p")], [flat("p", window)])
        self.state, self.overlay = State(), Overlay("gw@1")
        self.state.window_of(self.state.pool(POOL, 0), window.id, duration_ns(window), first_request=False)
        self.view: View = view_of(self.routing)
        self.version = 0

    def decide(self, now_ns: int, tokens: int) -> tuple[WindowUse, ...]:
        """The uses that the request reserves; empty when it is refused."""
        facts = self.view.route("code")
        views = self.overlay.locals_of(facts.places, "s", now_ns, {}, now_ns, 0)
        known = dict(zip(facts.places.pairs, views, strict=True))
        decision = decide(
            self.view, ask(input_tokens=tokens - 100), lambda t, p: known[t, p], now_ns=now_ns, seed=1,
            decision=DecisionId("d"), code="test",
        )  # fmt: skip
        found = verdict(decision, "a")
        if found.rank is None:
            assert found.reason == "window_exhausted"
            assert found.retry_at_ns is not None
            assert now_ns < found.retry_at_ns <= now_ns + int(1.02 * DURATION_S * S)
        return found.uses

    def settle(self, now_ns: int, uses: tuple[WindowUse, ...]) -> None:
        """The provider has answered; now and then the estimator publishes."""
        seq, attempt = next(_seqs), AttemptId(f"a{now_ns}")
        self.overlay.started(attempt, TARGET, POOL, uses)
        self.overlay.settled(attempt, uses, seq)
        data = UsageSettled(
            attempt=attempt, target=TARGET, pool=POOL, route="code", basis="reported", outcome="completed",
            windows=uses, evidence=False,
        )  # fmt: skip
        envelope = Envelope(
            id=EventId(f"e{seq}"), type="UsageSettled", v=1, ts=now_ns, source=SourceId("gw@1"), seq=seq,
            data=msgspec.Raw(b"{}"),
        )  # fmt: skip
        fold(self.state, [Signal(0, envelope, data)])
        if seq % PUBLISH_EVERY == 0:
            self.version += 1
            belief = publish(self.state, now_ns, self.routing, [], [POOL]).pools[POOL]
            snapshot = RateSnapshot(
                subject=pool_subject(POOL), version=self.version, at_ns=now_ns, config=self.view.digest,
                evidence=0, pool=belief,
            )  # fmt: skip
            self.view = with_snapshots(self.view, [snapshot])
            for partition in range(12):
                self.overlay.applied(partition, {"gw@1": seq})


PEAK = "08:20", "08:35"
"""The quarter of an hour that begins twenty minutes after NOW_NS."""


@pytest.mark.parametrize(
    ("unit", "limit", "weight"), [("requests", 80, 1), ("tokens", 45_000, 1), ("requests", 80, 3)]
)
def test_a_provider_is_never_asked_for_more_than_its_rolling_window_gives_and_little_stays_unused(
    unit: Literal["requests", "tokens"], limit: int, weight: int
) -> None:
    begin, end = PEAK
    hours = (PeakRule(weight=weight, from_time=begin, to_time=end),)
    rule = WindowRule(duration_s=DURATION_S, unit=unit, limit=limit, kind="rolling", peaks=hours)
    plan, rng = Plan(unit, limit, (Peak(weight=weight, begin=begin, end=end),)), random.Random(5)
    provider = window_of(rule, 1.0)
    now_ns, refused, shares = NOW_NS, 0, list[float]()
    for _ in range(500):
        now_ns += int(rng.expovariate(1 / 5.0) * S)
        tokens = rng.randrange(200, 1_000)
        uses = plan.decide(now_ns, tokens)
        if not uses:
            refused += 1
        else:
            assert provider.admits(now_ns / S, 1)
            provider.admit(now_ns / S, 1)
            sent_ns = now_ns
            now_ns += int(rng.uniform(0.1, 2.0) * S)
            provider.settle(now_ns / S, tokens, sent_ns / S)
            plan.settle(now_ns, uses)
        state = provider.state(now_ns / S)
        assert state.used <= limit
        shares.append(state.used / limit)
    busy = shares[200:]
    assert refused > 50, "more is asked than the plan gives"
    assert sum(busy) / len(busy) > 0.94
