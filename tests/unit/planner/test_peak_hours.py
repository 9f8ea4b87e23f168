"""Peak hours in a decision: the units of a use, its price and its room are those of the hour it is made in."""

from __future__ import annotations

from datetime import UTC, datetime

import msgspec

from support.planning import (
    HOUR_NS,
    NOW_NS,
    S,
    ask,
    flat,
    of_pool,
    plan,
    priced,
    routing,
    target,
    used,
    verdict,
    window,
    world,
)
from tidegate.events.config import Peak
from tidegate.planner.demand import demand_of
from tidegate.planner.view import View

MINUTE = datetime.fromtimestamp(NOW_NS / S, UTC).minute
BEGIN_NS = NOW_NS - NOW_NS % HOUR_NS + HOUR_NS
END_NS = BEGIN_NS + HOUR_NS


def clock(at_ns: int) -> str:
    return datetime.fromtimestamp(at_ns / S, UTC).strftime("%H:%M")


def day_plan(
    limit: int, left: int, unit: str = "requests", weight: float = 3.0, model_weight: float = 1.0
) -> View:
    """A day's window with `left` of it left; the next full hour is peak."""
    hours = Peak(weight=weight, begin=clock(BEGIN_NS), end=clock(END_NS))
    day = window("day", unit, limit, duration_s=864_000.0, peaks=(hours,))
    config = routing([target("a", priced(1, 4), pool="p", quota_weight=model_weight)], [flat("p", day)])
    start_ns = NOW_NS - NOW_NS % (240 * HOUR_NS)
    belief = used("day", limit - left, limit, period_start_ns=start_ns, shadow_nanousd=1_000.0)
    return world(config, of_pool("p", belief, config=config.digest()))


def test_a_use_counts_by_the_hour_it_is_made_in_and_says_so() -> None:
    view = day_plan(100, 50)
    found = [verdict(plan(view, now_ns=at_ns), "a") for at_ns in (NOW_NS, BEGIN_NS, END_NS - 1, END_NS)]
    assert [(each.uses[0].units, each.uses[0].peak) for each in found] == [
        (1, 1.0),
        (3, 3.0),
        (3, 3.0),
        (1, 1.0),
    ]
    assert [each.price.quota for each in found if each.price] == [1_000, 3_000, 3_000, 1_000]


def test_the_weights_of_hour_and_model_count_together_rounded_up_once() -> None:
    view = day_plan(100_000, 50_000, "tokens", weight=1.5, model_weight=0.3)
    (use,) = verdict(plan(view, ask(input_tokens=1_001, max_output_tokens=100), now_ns=BEGIN_NS), "a").uses
    assert use.units == 496, "1,101 tokens × 0.3 × 1.5 = 495.45"


def test_room_that_is_enough_before_the_peak_is_not_enough_in_it() -> None:
    view = day_plan(100, 2)
    assert verdict(plan(view), "a").rank == 0
    refused = verdict(plan(view, now_ns=BEGIN_NS), "a")
    assert (refused.reason, refused.detail) == ("window_exhausted", "window day: needs 3 requests, has 2")
    assert verdict(plan(view, now_ns=END_NS), "a").rank == 0


def test_an_hour_that_changes_leaves_belief_and_period_as_they_are() -> None:
    view = day_plan(100, 50)
    before, within = (verdict(plan(view, now_ns=at_ns), "a").uses[0] for at_ns in (NOW_NS, BEGIN_NS))
    assert before.period_start_ns == within.period_start_ns


def test_demand_of_a_dry_window_has_the_units_of_the_hour() -> None:
    view = day_plan(100, 2)
    (seen,) = demand_of(plan(view, now_ns=BEGIN_NS), view.route("code"))
    assert [(use.units, use.peak) for use in seen.windows] == [(3, 3.0)]


def test_a_use_outside_the_peak_is_recorded_in_the_bytes_it_always_had() -> None:
    view = day_plan(100, 50)
    assert b"peak" not in msgspec.json.encode(plan(view))
    assert b'"peak":3.0' in msgspec.json.encode(plan(view, now_ns=BEGIN_NS))
