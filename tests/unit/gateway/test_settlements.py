"""How an attempt ends in money: what is reported is exact, what is not is marked, what never left costs nothing."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.config import DatedPrice, Pool, Target, Window
from tidegate.events.decision import WindowUse
from tidegate.events.money import FREE, ListPrice, Tokens
from tidegate.events.signals import AttemptStarted
from tidegate.events.types import AttemptId, PoolId, TargetId, WindowId
from tidegate.gateway.serving import ServedTarget
from tidegate.gateway.settlements import Ending, settle
from tidegate.gateway.usage import from_answer

PRICE = ListPrice(input_uncached=3_000_000_000, cache_read=300_000_000, output=15_000_000_000)
WINDOWS = (
    Window(id=WindowId("r"), unit="requests", limit=10, duration_s=60),
    Window(id=WindowId("t"), unit="tokens", limit=10_000, duration_s=60),
    Window(id=WindowId("d"), unit="nanousd", limit=10**9, duration_s=60),
)


def target(**fields: Any) -> ServedTarget:
    config = Target(
        id=TargetId("t"), dialect="openai", base_url="https://api.example.test", model="m", pool=PoolId("p"),
        prices=(DatedPrice(input_uncached=3_000_000_000, output=15_000_000_000),), **fields,
    )  # fmt: skip
    return ServedTarget(config, Pool(id=PoolId("p"), billing="flat", windows=WINDOWS), {})


def test_a_flat_pool_charges_nothing_per_token_though_its_tokens_have_a_list_price() -> None:
    assert target().price(0) == FREE
    assert target().list_price(0) == ListPrice(input_uncached=3_000_000_000, output=15_000_000_000)


def started(price: ListPrice | None = PRICE, *, windows: bool = False) -> AttemptStarted:
    uses = tuple(WindowUse(window.id, 1_000, 77, 60 * 10**9) for window in WINDOWS) if windows else ()
    return AttemptStarted(
        attempt=AttemptId("a"), target=TargetId("t"), pool=PoolId("p"), route="r", index=0,
        input_tokens=1_000, reserve_output_tokens=500, price=price, windows=uses,
    )  # fmt: skip


def ended(ending: Ending, **options: Any) -> Any:
    return settle(started(**options), ending, target(), PRICE)


def test_a_client_that_left_shuts_no_window_with_what_it_might_have_got() -> None:
    event = ended(Ending(outcome="cancelled"), windows=True)
    assert (event.basis, event.cost_nanousd) == ("estimated", 1_000 * 3_000 + 500 * 15_000)
    assert [use.units for use in event.windows] == [1, 1_000, 1_000 * 3_000]
    seen = ended(Ending(outcome="cancelled", produced_tokens=7), windows=True)
    assert [use.units for use in seen.windows] == [1, 1_007, 1_000 * 3_000 + 7 * 15_000]
    cut = ended(Ending(outcome="failed"), windows=True)
    assert [use.units for use in cut.windows] == [1, 1_500, 1_000 * 3_000 + 500 * 15_000]


def test_reported_usage_is_exact() -> None:
    event = ended(Ending(outcome="completed", tokens=Tokens(input_uncached=10, cache_read=7, output=3)))
    assert (event.basis, event.cost_nanousd) == ("reported", 10 * 3_000 + 7 * 300 + 3 * 15_000)


def test_more_read_from_cache_than_the_whole_prompt_is_an_estimate_and_keeps_what_was_said() -> None:
    said = {"prompt_tokens": 10, "completion_tokens": 3, "prompt_tokens_details": {"cached_tokens": 12}}
    event = ended(Ending(outcome="completed", tokens=from_answer("openai", {"usage": said})))
    assert (event.basis, event.cost_nanousd) == ("estimated", 1_000 * 3_000 + 3 * 15_000)
    assert event.tokens == Tokens(cache_read=12, output=3)


def test_what_never_left_or_was_refused_costs_nothing() -> None:
    event = ended(Ending(outcome="failed", billed=False), windows=True)
    assert (event.basis, event.cost_nanousd) == ("none", 0)
    assert [use.units for use in event.windows] == [0, 0, 0]


def test_unknown_usage_is_charged_at_its_full_reserve_and_stays_unknown() -> None:
    event = ended(Ending(outcome="failed"))
    assert (event.basis, event.cost_nanousd) == ("estimated", 1_000 * 3_000 + 500 * 15_000)
    assert event.tokens == Tokens()


def test_output_seen_so_far_replaces_the_reserve() -> None:
    event = ended(Ending(outcome="cancelled", produced_tokens=4, evidence=False))
    assert event.cost_nanousd == 1_000 * 3_000 + 4 * 15_000
    assert not event.evidence


def test_known_input_is_kept_when_only_the_output_is_missing() -> None:
    event = ended(
        Ending(outcome="truncated", tokens=Tokens(input_uncached=20, cache_read=900), produced_tokens=2)
    )
    assert (event.basis, event.cost_nanousd) == ("estimated", 20 * 3_000 + 900 * 300 + 2 * 15_000)
    assert event.tokens.output is None


def test_an_unknown_price_leaves_the_cost_unknown() -> None:
    event = ended(Ending(outcome="completed", tokens=Tokens(input_uncached=1, output=1)), price=None)
    assert (event.basis, event.cost_nanousd) == ("reported", None)


def test_a_flat_plan_bills_nothing_but_its_windows_count() -> None:
    event = ended(
        Ending(outcome="completed", tokens=Tokens(input_uncached=10, cache_read=90, output=5)),
        price=FREE,
        windows=True,
    )
    assert event.cost_nanousd == 0
    assert [use.units for use in event.windows] == [1, 105, 10 * 3_000 + 90 * 300 + 5 * 15_000]
    assert {(use.period_start_ns, use.duration_ns) for use in event.windows} == {(1_000, 60 * 10**9)}


@given(st.integers(0, 10**7), st.integers(0, 10**7), st.booleans())
def test_zero_is_a_report_and_none_is_not(input_tokens: int, output: int, reported: bool) -> None:
    tokens = Tokens(input_uncached=input_tokens, output=output if reported else None)
    event = ended(Ending(outcome="completed", tokens=tokens))
    assert event.basis == ("reported" if reported else "estimated")


@pytest.mark.parametrize(("asked", "reserve"), [(None, 4_096), (100, 100), (10**6, 262_144)])
def test_the_reserve_is_what_the_client_may_get(asked: int | None, reserve: int) -> None:
    assert target().reserve_tokens(asked) == reserve


def test_the_prefix_a_session_left_is_told_beside_what_its_prompt_found_of_it() -> None:
    attempt = msgspec.structs.replace(started(), prefix_tokens=900, prefix_age_ns=5)
    event = settle(attempt, Ending(outcome="completed"), target(), PRICE)
    assert (event.prefix_tokens, event.prefix_age_ns) == (900, 5)
    cold = ended(Ending(outcome="completed"))
    assert (cold.prefix_tokens, cold.prefix_age_ns) == (None, None)


def test_windows_count_a_model_as_often_as_its_plan_does_and_the_bill_counts_it_once() -> None:
    ending = Ending(outcome="completed", tokens=Tokens(input_uncached=1_000, output=10))
    event = settle(started(windows=True), ending, target(quota_weight=2.5), PRICE)
    plain = settle(started(windows=True), ending, target(), PRICE)
    assert [use.units for use in event.windows] == [3, 2_525, (plain.windows[2].units * 5 + 1) // 2]
    assert event.cost_nanousd == plain.cost_nanousd


def test_windows_count_by_the_hour_the_request_was_planned_in() -> None:
    ending = Ending(outcome="completed", tokens=Tokens(input_uncached=1_000, output=10))
    begun = started(windows=True)
    peaked = tuple(msgspec.structs.replace(use, peak=3.0) for use in begun.windows)
    event = settle(msgspec.structs.replace(begun, windows=peaked), ending, target(quota_weight=0.5), PRICE)
    plain = settle(begun, ending, target(), PRICE)
    assert [use.units for use in event.windows] == [2, 1_515, (plain.windows[2].units * 3 + 1) // 2]
    assert {use.peak for use in event.windows} == {3.0}
    assert event.cost_nanousd == plain.cost_nanousd
