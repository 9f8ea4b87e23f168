"""The simulated providers of a demo: what fails when, and windows that gateway and provider agree on."""

from collections import Counter
from itertools import pairwise

import pytest

from tidegate.events.quota import NS_PER_S
from tidegate.runtime.demo.providers import (
    FLAKY,
    FLAT,
    MAX_CONCURRENCY,
    METERED,
    MODEL,
    Plan,
    list_price,
    plan_for,
    pool_windows,
    simulator_config,
)
from tidegate.runtime.demo.workload import generate
from tidegate.simulator.faults import CATALOGUE, Schedule
from tidegate.simulator.loading import load
from tidegate.simulator.windows import Window

PLAN = Plan(40, 1_000_000)
COMPLETED = {"hidden_usage", "header_stall"}


def config(speed: float = 240.0):
    return load(simulator_config(PLAN, speed, 7, "sk-test-key"))


def strikes(requests: int) -> list[str | None]:
    flaky = next(provider for provider in config().providers if provider.id == FLAKY)
    schedule = Schedule(flaky.faults, 7, 0.0, 240.0)
    picked = [schedule.pick(MODEL, ordinal, 1.0) for ordinal in range(requests)]
    return [None if fault is None else fault.kind for fault in picked]


def test_the_simulator_takes_the_configuration_and_scales_it_itself() -> None:
    found = config(speed=60.0)
    assert found.speed == 60.0
    assert [provider.id for provider in found.providers] == [FLAT, METERED, FLAKY]
    assert {provider.billing for provider in found.providers if provider.id == FLAT} == {"flat"}


def test_between_two_failures_more_requests_end_well_than_are_in_flight() -> None:
    failures = [place for place, kind in enumerate(strikes(5_000)) if kind not in {None, *COMPLETED}]
    assert min(after - before for before, after in pairwise(failures)) > MAX_CONCURRENCY + 1


def test_one_request_in_eleven_fails_in_every_way_and_few_hide_their_usage() -> None:
    kinds = Counter(strikes(5_000))
    failed = sum(count for kind, count in kinds.items() if kind not in {None, *COMPLETED})
    assert failed == 5_000 // 11
    assert {"503", "529", "429", "rst", "error_200", "cut", *COMPLETED} == {kind for kind in kinds if kind}
    assert 0 < kinds["hidden_usage"] < 50
    assert all(kind in CATALOGUE for kind in kinds if kind)


@pytest.mark.parametrize("speed", [1.0, 240.0, 3_000.0])
def test_gateway_and_provider_agree_on_every_window(speed: float) -> None:
    flat = next(provider for provider in config(speed).providers if provider.id == FLAT)
    for rule, stated in zip(flat.windows, pool_windows(PLAN, speed), strict=True):
        state = Window(rule, speed).state(1_000.0)
        assert (state.name, state.unit, state.limit) == (stated["id"], stated["unit"], stated["limit"])
        assert state.duration_s == stated["duration_s"]
        assert stated["duration_s"] * NS_PER_S >= 1
        assert rule.kind == stated["kind"]


def test_prices_stated_to_the_gateway_are_the_providers_own() -> None:
    for provider in config().providers:
        (model,) = provider.models
        for name, dollars in list_price(provider.id).items():
            assert round(float(dollars) * 1e9) == getattr(model, name)


def test_the_failing_provider_is_the_cheaper_one() -> None:
    prices = {provider.id: provider.models[0] for provider in config().providers}
    for name in ("input_uncached", "cache_read", "output"):
        assert getattr(prices[FLAKY], name) < getattr(prices[METERED], name)


def test_the_plan_covers_a_part_of_the_workload() -> None:
    workload = generate(40, 7)
    plan = plan_for(workload)
    assert 0 < plan.requests_per_5h < len(workload.requests) / 4
    assert 0 < plan.tokens_per_week < workload.input_tokens() / 2
