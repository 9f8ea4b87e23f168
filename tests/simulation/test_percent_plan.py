"""A plan that tells only whole percents, and that others use too: the running system finds out what it holds."""

from __future__ import annotations

import math

import pytest

from support.percent_plan import WINDOW_S, Run, World, run
from tidegate.events.snapshots import Belief

pytestmark = pytest.mark.slow

SHARED = World(capacity=60_000, guess=15_000, outside_per_hour=24_000.0)
ALONE = World(capacity=60_000, guess=200_000, outside_per_hour=0.0, dialect="openai", kind="first_request")


def known(belief: Belief | None) -> Belief:
    assert belief is not None
    assert not belief.prior
    return belief


def check_capacity(seen: Run, world: World, at_s: float) -> None:
    capacity = known(seen.before(at_s).capacity)
    assert abs(capacity.mean - world.capacity) < 0.05 * world.capacity
    assert abs(capacity.mean - world.capacity) < 2.5 * math.sqrt(capacity.var)
    assert math.sqrt(capacity.var) < 0.1 * world.capacity


def check_exhaustion(seen: Run, calm_s: float) -> None:
    """Sure where it came, and not where it did not; what was sold until then is what the plan held."""
    dry_s = min(at_s for at_s, status in seen.asked if status != 200)
    assert dry_s > WINDOW_S
    sure = seen.before(dry_s - 120.0)
    assert (sure.p_exhaust or 0.0) > 0.7
    assert (seen.before(calm_s).p_exhaust or 0.0) < 0.35
    assert sure.exhausts_at_ns is not None


def test_the_capacity_of_a_shared_plan_is_found_and_so_is_what_others_use() -> None:
    seen = run(SHARED, [0.022, 0.09])
    end_s = WINDOW_S - 30.0
    first = next(one.belief for one in seen.seen)
    assert first.limit == SHARED.guess
    check_capacity(seen, SHARED, end_s)
    outside = known(seen.before(end_s).outside)
    used = SHARED.outside_per_hour * end_s / 3_600.0
    assert abs(outside.mean - used) < 2.5 * math.sqrt(outside.var)
    assert outside.mean > 0.5 * used
    assert 0.3 < (seen.before(WINDOW_S + 300.0).outside_demand or 0.0) / (used * 5 / 6) < 1.3
    check_exhaustion(seen, end_s)


@pytest.mark.nightly
def test_the_capacity_of_a_plan_opened_by_our_first_request_is_found() -> None:
    seen = run(ALONE, [0.03, 0.03, 0.12])
    check_capacity(seen, ALONE, 2 * WINDOW_S - 30.0)
    outside = known(seen.before(2 * WINDOW_S - 30.0).outside)
    assert outside.mean < 2.5 * math.sqrt(outside.var)
    check_exhaustion(seen, 2 * WINDOW_S - 30.0)
