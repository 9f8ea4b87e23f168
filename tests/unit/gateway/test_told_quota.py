"""What a provider says of a limit becomes an event that names the window it measures, and the period it is of."""

from __future__ import annotations

import pytest

from tidegate.events.config import Window
from tidegate.events.decision import WindowUse
from tidegate.events.signals import AttemptStarted
from tidegate.events.types import AttemptId, PoolId, TargetId, WindowId
from tidegate.gateway.rate_limits import Limit
from tidegate.gateway.told_quota import observed

S = 10**9
NOW_NS = 1_800_000_123 * S
HOUR_NS = 3_600 * S
FIXED = Window(id=WindowId("h"), unit="requests", limit=100, duration_s=3_600, scope="requests")
OPENED = Window(
    id=WindowId("5h"), unit="tokens", limit=70_000, duration_s=18_000, kind="first_request",
    scope="unified-5h", percent_only=True,
)  # fmt: skip


def started(*uses: WindowUse) -> AttemptStarted:
    return AttemptStarted(
        attempt=AttemptId("a"), target=TargetId("t"), pool=PoolId("p"), route="r", index=0,
        input_tokens=1, reserve_output_tokens=1, windows=uses,
    )  # fmt: skip


def measured(window: Window, limit: Limit, *uses: WindowUse, served: bool = True) -> WindowUse:
    found = observed(limit, window, started(*uses), NOW_NS, served=served).window
    assert found is not None
    return found


def test_a_limit_that_measures_no_window_is_told_as_it_is() -> None:
    event = observed(Limit("tokens", 10, 4, NOW_NS), None, started(), NOW_NS, served=True)
    assert (event.scope, event.limit, event.remaining, event.resets_at_ns) == ("tokens", 10, 4, NOW_NS)
    assert (event.window, event.guess) == (None, None)


@pytest.mark.parametrize("served", [True, False])
def test_a_request_the_provider_took_counts_there_already(served: bool) -> None:
    event = observed(Limit("requests", 100, 40), FIXED, started(), NOW_NS, served=served)
    start_ns = NOW_NS - NOW_NS % HOUR_NS
    assert event.window == WindowUse(WindowId("h"), start_ns, int(served), HOUR_NS)
    assert event.guess is None


@pytest.mark.parametrize("off_s", [-4, 0, 4])
def test_a_reset_that_is_rounded_names_the_period_we_know(off_s: int) -> None:
    opened_ns = NOW_NS - 2 * HOUR_NS
    limit = Limit("unified-5h", 10_000, 9_000, opened_ns + 5 * HOUR_NS + off_s * S)
    use = measured(OPENED, limit, WindowUse(WindowId("5h"), opened_ns, 400))
    assert use == WindowUse(WindowId("5h"), opened_ns, 0, 5 * HOUR_NS, True)


@pytest.mark.parametrize("off_s", [-3_000, 1_000])
def test_a_period_that_began_elsewhere_is_the_providers(off_s: int) -> None:
    opened_ns = NOW_NS - 2 * HOUR_NS
    limit = Limit("unified-5h", 10_000, 9_000, opened_ns + 5 * HOUR_NS + off_s * S)
    use = measured(OPENED, limit, WindowUse(WindowId("5h"), opened_ns, 400))
    assert use.period_start_ns == opened_ns + off_s * S


def test_without_a_reset_the_period_is_the_one_that_was_planned_or_begins_now() -> None:
    limit = Limit("unified-5h", 10_000, 9_000)
    planned = WindowUse(WindowId("5h"), NOW_NS - HOUR_NS, 400)
    assert measured(OPENED, limit, planned).period_start_ns == NOW_NS - HOUR_NS
    assert measured(OPENED, limit).period_start_ns == NOW_NS
    assert observed(limit, OPENED, started(), NOW_NS, served=True).guess == 70_000


def test_a_heavy_model_counts_as_often_as_its_plan_counts_it() -> None:
    event = observed(Limit("requests", 100, 40), FIXED, started(), NOW_NS, 3.0, served=True)
    assert event.window is not None
    assert event.window.units == 3


def test_a_request_the_provider_took_in_a_peak_hour_counts_there_as_often() -> None:
    planned = WindowUse(WindowId("h"), NOW_NS - NOW_NS % HOUR_NS, 3, HOUR_NS, peak=3.0)
    assert measured(FIXED, Limit("requests", 100, 40), planned).units == 3
