"""What a worker holds against a target: a blip turns nobody away, an outage does, and it ends with the outage."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from support.planning import NOW_NS, S, ask, priced, routing, target, verdict, world
from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.publish import publish
from tidegate.estimator.state import State
from tidegate.events.clock import ManualClock
from tidegate.events.decision import DecisionMade
from tidegate.events.envelope import Envelope
from tidegate.events.ids import IdSource
from tidegate.events.money import Tokens
from tidegate.events.partition import partition_of
from tidegate.events.signals import AttemptFailed, AttemptStarted, UsageSettled
from tidegate.events.snapshots import RateSnapshot, pool_subject, target_subject
from tidegate.events.types import AttemptId, EventId, PoolId, SourceId, TargetId
from tidegate.planner.overlay import Overlay
from tidegate.planner.planner import Planner
from tidegate.planner.replay import verify
from tidegate.planner.rng import SplitMix64
from tidegate.planner.view import with_snapshots
from tidegate.runtime.gateway_planner import GatewayPlanner

PAST_MS = 1_000_000
"""Ids tell milliseconds."""


class Site:
    """A worker on routes over targets; with `shared`, an estimator folds what it says, and its view follows."""

    def __init__(self, *names: str, shared: bool = False) -> None:
        self.clock = ManualClock(NOW_NS, 5_000 * S)
        self.ids = IdSource(self.clock, lambda bits: 0)
        self.routing = routing([target(name, priced(100**n, 100**n)) for n, name in enumerate(names)])
        self.view = world(self.routing)
        self.overlay = Overlay("gw@1")
        self.restart()
        self.state = State() if shared else None
        self.seqs = itertools.count(1)
        self.begun: dict[AttemptId, int] = {}

    def restart(self) -> None:
        planner = Planner(self, self.overlay, self.clock, self.ids, SplitMix64(1), "test")
        self.worker = GatewayPlanner(planner, self.overlay, self.clock)
        for snapshot in self.view.snapshots.values():
            self.overlay.believed(snapshot, self.clock.wall_ns(), self.clock.mono_ns())

    def plan(self) -> DecisionMade:
        return self.worker.plan(ask())

    @property
    def serves(self) -> bool:
        return self.plan().chosen is not None

    def begin(self, name: str = "a") -> AttemptId:
        attempt = AttemptId(self.ids.next())
        self.begun[attempt] = self.clock.mono_ns()
        self.worker.attempt_started(
            AttemptStarted(
                attempt=attempt,
                target=TargetId(name),
                pool=PoolId(name),
                route="code",
                index=0,
                input_tokens=1,
                reserve_output_tokens=1,
            ),
            next(self.seqs),
        )
        return attempt

    def fail(self, attempt: AttemptId, cause: Any = "unavailable", name: str = "a", **fields: Any) -> None:
        event = AttemptFailed(
            attempt=attempt,
            target=TargetId(name),
            pool=PoolId(name),
            cause=cause,
            phase="body",
            rule="r",
            **fields,
        )
        seq = next(self.seqs)
        self.worker.attempt_failed(event, seq)
        self._tell(event, seq)
        self.settle(attempt, name, outcome="failed")

    def settle(self, attempt: AttemptId, name: str = "a", **fields: Any) -> None:
        event = UsageSettled(
            attempt=attempt,
            target=TargetId(name),
            pool=PoolId(name),
            route="code",
            basis="reported",
            tokens=Tokens(input_uncached=1, output=1),
            duration_ns=self.clock.mono_ns() - self.begun[attempt],
            **{"outcome": "completed", **fields},
        )
        seq = next(self.seqs)
        self.worker.attempt_settled(event, seq, "s")
        self._tell(event, seq)

    def _tell(self, event: Any, seq: int) -> None:
        if self.state is None:
            return
        envelope = Envelope(
            id=EventId(str(seq)), type="", v=1, ts=self.clock.wall_ns(), source=SourceId("gw@1"), seq=seq,
            data=None,  # type: ignore[arg-type]
        )  # fmt: skip
        fold(self.state, [Signal(0, envelope, event)])
        now_ns = self.clock.wall_ns()
        told = publish(self.state, now_ns, self.routing, [event.target], [event.pool])
        at: dict[str, Any] = {"version": seq, "at_ns": now_ns, "config": self.view.digest, "evidence": 0}
        snapshots = [
            *(RateSnapshot(subject=target_subject(n), target=each, **at) for n, each in told.targets.items()),
            *(RateSnapshot(subject=pool_subject(n), pool=each, **at) for n, each in told.pools.items()),
        ]
        self.view = with_snapshots(self.view, snapshots)
        for snapshot in snapshots:
            self.overlay.believed(snapshot, now_ns, self.clock.mono_ns())
        self.overlay.applied(partition_of(event.pool), {"gw@1": seq})

    def outage(self, lasting_s: float, each_s: float = 0.1, takes_s: float = 0.01) -> tuple[int, int]:
        """Clients ask again and again of a provider that is down; tried, and turned away."""
        tried = refused = 0
        for _ in range(int(lasting_s / each_s)):
            chosen = self.plan().chosen
            refused += chosen is None
            attempt = self.begin(chosen) if chosen == "a" else AttemptId("")
            self.clock.advance_ns(int(takes_s * S))
            if chosen == "a":
                tried += 1
                self.fail(attempt)
            self.clock.advance_ns(int((each_s - takes_s) * S))
        return tried, refused


BOTH = pytest.mark.parametrize("shared", [False, True])


@BOTH
@pytest.mark.parametrize("cause", ["unavailable", "transport", "rate_limited"])
def test_a_blip_that_met_twenty_requests_turns_no_other_away(cause: str, shared: bool) -> None:
    site = Site("a", shared=shared)
    under_way = [site.begin() for _ in range(20)]
    for attempt in under_way:
        site.clock.advance_ns(S // 25)
        site.fail(attempt, cause)
        assert site.serves
    site.clock.advance_ns(PAST_MS)
    site.settle(site.begin())
    assert site.serves


@BOTH
def test_an_outage_closes_the_only_target_to_all_but_one_request_a_second(shared: bool) -> None:
    site = Site("a", shared=shared)
    site.outage(5)
    tried, refused = site.outage(40)
    assert tried + refused == 400
    assert 30 < tried <= 41


@BOTH
@pytest.mark.parametrize("lasted_s", [1, 6, 40])
def test_service_is_back_a_second_after_an_outage_of_the_only_target(lasted_s: int, shared: bool) -> None:
    site = Site("a", shared=shared)
    site.outage(lasted_s)
    site.clock.advance_ns(S)
    assert site.serves
    site.settle(site.begin())
    for _ in range(100):
        assert site.serves
        site.begin()


@BOTH
def test_the_next_target_serves_everybody_while_the_first_is_closed_and_it_is_tried_when_that_ends(
    shared: bool,
) -> None:
    site = Site("a", "b", shared=shared)
    tried, refused = site.outage(5)
    assert refused == 0
    tried, refused = site.outage(29)
    assert (tried, refused) == (0, 0)
    site.clock.advance_ns(2 * S)
    assert site.plan().chosen == "a"
    site.settle(site.begin())
    assert site.plan().chosen == "a"


@BOTH
def test_a_route_whose_targets_all_fail_tries_the_next_one_in_the_same_request(shared: bool) -> None:
    site = Site("a", "b", shared=shared)
    for _ in range(5):
        site.clock.advance_ns(S)
        for name in "ab":
            site.fail(site.begin(name), name=name)
    assert not site.serves
    site.clock.advance_ns(S)
    assert site.plan().chosen == "a"
    site.fail(site.begin())
    assert not site.worker.may_still_try(ask(), TargetId("a"))
    assert site.worker.may_still_try(ask(), TargetId("b"))


def test_a_closed_target_is_not_tried_by_a_request_that_has_an_open_one_left() -> None:
    site = Site("a", "b")
    site.outage(5)
    site.clock.advance_ns(S)
    assert not site.worker.may_still_try(ask(), TargetId("a"))
    assert site.worker.may_still_try(ask(), TargetId("b"))


@BOTH
@pytest.mark.parametrize(("later", "reopens"), [(False, False), (True, True)])
def test_a_stream_that_began_before_a_key_was_refused_does_not_undo_it(
    later: bool, reopens: bool, shared: bool
) -> None:
    site = Site("a", shared=shared)
    stream = site.begin()
    site.clock.advance_ns(10 * S)
    site.fail(site.begin(), "auth", status=401)
    assert not site.serves
    site.clock.advance_ns(50 * S)
    if later:
        stream = site.begin()
    site.settle(stream)
    assert site.serves is reopens


@BOTH
def test_a_provider_that_says_how_long_to_wait_is_left_alone_so_long(shared: bool) -> None:
    site = Site("a", shared=shared)
    for _ in range(2):
        site.clock.advance_ns(S)
        site.fail(site.begin(), "rate_limited", status=429, retry_after_ms=20_000)
    for _ in range(19):
        site.clock.advance_ns(S)
        assert not site.serves
    site.clock.advance_ns(S)
    assert site.serves


CLOSINGS: dict[str, tuple[int, dict[str, Any], float | None]] = {
    "fault": (5, {"cause": "unavailable", "status": 503}, 30),
    "throttle": (2, {"cause": "rate_limited", "status": 429}, 30),
    "throttle with a hint": (2, {"cause": "rate_limited", "status": 429, "retry_after_ms": 77_000}, 77),
    "quota": (1, {"cause": "quota_exhausted", "status": 429}, 3_600),
    "quota with a hint": (1, {"cause": "quota_exhausted", "status": 429, "retry_after_ms": 600_000}, 600),
    "doubtful quota": (1, {"cause": "quota_exhausted", "status": 429, "confidence": "low"}, 30),
    "doubtful key": (1, {"cause": "auth", "status": 401, "confidence": "low"}, 30),
    "key": (1, {"cause": "auth", "status": 401}, None),
}
"""By kind: failures that close, what they say, and for how many seconds, None for good."""


@pytest.mark.parametrize("jump_s", [-3_600, -86_400 * 30, 3_600])
@pytest.mark.parametrize("kind", CLOSINGS)
@BOTH
def test_no_correction_of_the_wall_clock_makes_a_closing_longer(kind: str, jump_s: int, shared: bool) -> None:
    times, said, lasts_s = CLOSINGS[kind]
    site = Site("a", "b", shared=shared)
    for _ in range(times):
        site.clock.advance_ns(S)
        site.fail(site.begin(), **said)
    assert site.plan().chosen == "b"
    site.clock.jump_wall_ns(jump_s * S)
    if lasts_s is None:
        site.clock.advance_ns(10**6 * S)
        assert verdict(site.plan(), "a").reason == "circuit_refusing"
        return
    if not shared:  # a clock that is set forward ends early what the snapshots tell
        site.clock.advance_ns(int(lasts_s * S) - 1)
        assert verdict(site.plan(), "a").reason in {"circuit_refusing", "pool_cooldown"}
        site.clock.advance_ns(1)
    else:
        site.clock.advance_ns(int(lasts_s * S))
    made = site.plan()
    assert verdict(made, "a").rank is not None, verdict(made, "a")
    snapshots = site.view.snapshots
    assert verify(made, site.routing, snapshots).outcome == "identical"


@pytest.mark.parametrize("back_s", [3_600, 86_400 * 30])
def test_a_success_opens_for_all_what_was_closed_by_a_clock_that_was_set_back(back_s: int) -> None:
    site = Site("a", "b", shared=True)
    site.outage(5)
    site.clock.jump_wall_ns(-back_s * S)
    site.clock.advance_ns(31 * S)
    site.settle(site.begin())
    belief = site.view.snapshots[target_subject(TargetId("a"))].target
    assert belief is not None
    assert belief.circuit == "admitting"


def test_a_worker_that_starts_after_the_clock_was_set_back_waits_no_longer_than_was_told() -> None:
    site = Site("a", "b", shared=True)
    site.outage(5)
    site.clock.jump_wall_ns(-3_600 * S)
    site.overlay = Overlay("gw@2")
    site.restart()
    assert verdict(site.plan(), "a").reason == "circuit_refusing"
    site.clock.advance_ns(31 * S)
    assert verdict(site.plan(), "a").rank is not None


def test_what_a_client_brought_about_is_held_against_nobody() -> None:
    site = Site("a")
    for n in range(20):
        site.clock.advance_ns(S)
        site.fail(site.begin(), ["invalid_request", "denied", "unavailable"][n % 3], evidence=n % 3 != 2)
    assert site.serves
    assert site.plan().candidates[0].local.tried_at_ns is None
