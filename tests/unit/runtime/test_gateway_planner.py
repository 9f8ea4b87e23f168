"""What a worker holds against a target: a blip turns nobody away, an outage does, and it ends with the outage."""

from __future__ import annotations

import itertools
from typing import Any

import pytest

from support.planning import NOW_NS, S, ask, priced, routing, target, world
from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.publish import publish
from tidegate.estimator.state import State
from tidegate.events.clock import ManualClock
from tidegate.events.decision import DecisionMade
from tidegate.events.envelope import Envelope
from tidegate.events.ids import IdSource
from tidegate.events.money import Tokens
from tidegate.events.signals import AttemptFailed, AttemptStarted, UsageSettled
from tidegate.events.snapshots import RateSnapshot, target_subject
from tidegate.events.types import AttemptId, EventId, PoolId, SourceId, TargetId
from tidegate.planner.overlay import Overlay
from tidegate.planner.planner import Planner
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
        planner = Planner(self, self.overlay, self.clock, self.ids, SplitMix64(1), "test")
        self.worker = GatewayPlanner(planner, self.overlay, self.clock)
        self.state = State() if shared else None
        self.seqs = itertools.count(1)
        self.begun: dict[AttemptId, int] = {}

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
        beliefs = publish(self.state, self.clock.wall_ns(), self.routing, [event.target], []).targets
        self.view = with_snapshots(
            self.view,
            [
                RateSnapshot(
                    subject=target_subject(name), version=seq, at_ns=self.clock.wall_ns(), config="",
                    evidence=0, target=belief,
                )
                for name, belief in beliefs.items()
            ],
        )  # fmt: skip
        self.overlay.applied(0, {"gw@1": seq})

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


def test_what_a_client_brought_about_is_held_against_nobody() -> None:
    site = Site("a")
    for n in range(20):
        site.clock.advance_ns(S)
        site.fail(site.begin(), ["invalid_request", "denied", "unavailable"][n % 3], evidence=n % 3 != 2)
    assert site.serves
    assert site.plan().candidates[0].local.tried_at_ns is None
