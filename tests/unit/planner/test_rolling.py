"""Rolling windows in a decision: room grows as uses age out, a refusal says when there is enough, uses name their slice."""

from __future__ import annotations

from typing import Any

import pytest

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
from tidegate.events.config import Routing
from tidegate.events.decision import LocalView, WindowUse
from tidegate.events.quota import SLICES, counts_for_ns, period_start_ns, slice_ns
from tidegate.events.snapshots import WindowBelief
from tidegate.events.types import WindowId
from tidegate.planner.demand import demand_of
from tidegate.planner.view import View

W = WindowId("w")
SLICE_NS = HOUR_NS // SLICES
SLICE_START_NS = NOW_NS - NOW_NS % SLICE_NS


def pool_of(limit: int, unit: str = "requests") -> Routing:
    rolling = window("w", unit, limit, kind="rolling")
    return routing([target("a", priced(1, 4), pool="p")], [flat("p", rolling)])


def believed(units: int, limit: int, *ages_out: tuple[int, int], **fields: Any) -> WindowBelief:
    return used(
        "w", units, limit, period_start_ns=None, rolls_ns=HOUR_NS, ages_out=ages_out, **fields
    )  # fmt: skip


def known(limit: int, belief: WindowBelief, unit: str = "requests") -> View:
    config = pool_of(limit, unit)
    return world(config, of_pool("p", belief, config=config.digest()))


def test_a_use_of_a_rolling_window_names_its_slice() -> None:
    admitted = verdict(plan(world(pool_of(5))), "a")
    assert admitted.uses == (WindowUse(W, SLICE_START_NS, 1, HOUR_NS, rolling=True),)


def test_slices_lie_on_one_grid_and_a_use_never_counts_shorter_than_the_window() -> None:
    odd = window("w", "requests", 5, kind="rolling", duration_s=100.000000007)
    length_ns = 100_000_000_007
    assert slice_ns(length_ns) * SLICES >= length_ns
    for at_ns in (NOW_NS, NOW_NS + 1, NOW_NS + length_ns // 7):
        start_ns = period_start_ns(odd, at_ns)
        assert start_ns % slice_ns(length_ns) == 0
        assert 0 <= at_ns - start_ns < slice_ns(length_ns)
        assert start_ns + counts_for_ns(odd) >= at_ns + length_ns
    assert slice_ns(7) == 1


def test_what_has_aged_out_since_the_snapshot_makes_room_again() -> None:
    view = known(5, believed(5, 5, (NOW_NS + 90 * S, 1), (NOW_NS + 1_800 * S, 4)))
    dry = verdict(plan(view), "a")
    assert (dry.reason, dry.retry_at_ns) == ("window_exhausted", NOW_NS + 90 * S)
    assert dry.detail == "window w: needs 1 requests, has 0"
    later = plan(view, now_ns=NOW_NS + 90 * S)
    assert verdict(later, "a").rank == 0


def test_a_large_request_is_told_to_come_when_enough_has_aged_out_and_one_above_the_limit_never() -> None:
    ages = ((NOW_NS + 60 * S, 400), (NOW_NS + 120 * S, 300), (NOW_NS + 180 * S, 2_300))
    view = known(3_000, believed(3_000, 3_000, *ages), "tokens")
    assert verdict(plan(view, ask(input_tokens=500)), "a").retry_at_ns == NOW_NS + 120 * S
    assert verdict(plan(view, ask(input_tokens=2_000)), "a").retry_at_ns == NOW_NS + 180 * S
    assert verdict(plan(view, ask(input_tokens=4_000)), "a").retry_at_ns is None


def test_what_had_aged_out_before_is_no_room_to_come() -> None:
    ages = ((NOW_NS - 60 * S, 1), (NOW_NS + 60 * S, 1), (NOW_NS + 120 * S, 5))
    view = known(5, believed(7, 5, *ages))
    assert verdict(plan(view), "a").retry_at_ns == NOW_NS + 120 * S


def test_own_uses_that_are_not_believed_yet_count_until_their_slice_is_out_and_say_when_that_is() -> None:
    view = known(2, believed(0, 2))
    out_ns = SLICE_START_NS + (SLICES + 1) * SLICE_NS
    own = LocalView(uses=(WindowUse(W, SLICE_START_NS, 2),))
    dry = verdict(plan(view, local={"a": own}), "a")
    assert (dry.reason, dry.retry_at_ns) == ("window_exhausted", out_ns)
    assert verdict(plan(view, local={"a": own}, now_ns=out_ns - 1), "a").reason == "window_exhausted"
    assert verdict(plan(view, local={"a": own}, now_ns=out_ns), "a").rank == 0


def test_use_beyond_the_limit_must_age_out_first() -> None:
    view = known(5, believed(7, 5, (NOW_NS + 60 * S, 2), (NOW_NS + 120 * S, 5)))
    assert verdict(plan(view), "a").retry_at_ns == NOW_NS + 120 * S
    assert verdict(plan(view, now_ns=NOW_NS + 60 * S), "a").reason == "window_exhausted"
    assert verdict(plan(view, now_ns=NOW_NS + 120 * S), "a").rank == 0


def test_where_nothing_says_when_own_shares_of_other_workers_end_the_next_slice_is_tried() -> None:
    """Own uses are counted once for each worker: more may be missing than will ever age out."""
    view = known(5, believed(5, 5))
    assert verdict(plan(view), "a").retry_at_ns == SLICE_START_NS + SLICE_NS


@pytest.mark.parametrize(
    ("later_s", "price"), [(0, 7_000), (1_800, 7_000), (3_659, 7_000), (3_660, 1_500_000)]
)
def test_price_and_chance_hold_until_all_they_were_made_of_has_aged_out(later_s: int, price: int) -> None:
    belief = believed(3, 5, (NOW_NS + 60 * S, 3), shadow_nanousd=7_000.0, p_exhaust=0.25)
    found = verdict(plan(known(5, belief), now_ns=NOW_NS + later_s * S), "a")
    assert found.price is not None
    assert (found.price.quota, found.p_exhaust) == (price, 0.25 if price == 7_000 else None)


def test_demand_of_a_dry_rolling_window_names_its_slice_and_when_there_is_room() -> None:
    view = known(5, believed(5, 5, (NOW_NS + 90 * S, 5)))
    (seen,) = demand_of(plan(view), view.route("code"))
    assert seen.windows == (WindowUse(W, SLICE_START_NS, 1, HOUR_NS, rolling=True),)
    assert seen.refused_until_ns == NOW_NS + 90 * S
