"""The three simulated providers: a flat-rate plan, a dependable metered API, and a cheaper one that fails. Pure."""

from typing import Any, NamedTuple

from tidegate.events.money import dollars
from tidegate.runtime.demo.workload import Workload

FLAT, METERED, FLAKY = "flat-plan", "metered", "flaky"
PROVIDERS = (FLAT, METERED, FLAKY)
MODEL = "coder-large"

HOUR_S = 3_600.0
WEEK_S = 7 * 24 * HOUR_S
SHORT_WINDOW, LONG_WINDOW = "5h", "week"
SHORT_WINDOW_S = 5 * HOUR_S

METERED_PRICES = {
    "input_uncached": 3_000_000_000,
    "cache_read": 300_000_000,
    "output": 15_000_000_000,
}
FLAKY_PRICES = {
    "input_uncached": 2_000_000_000,
    "cache_read": 200_000_000,
    "output": 10_000_000_000,
}
PRICES = {FLAT: METERED_PRICES, METERED: METERED_PRICES, FLAKY: FLAKY_PRICES}

MAX_CONCURRENCY = 8
FAULT_SPACING = MAX_CONCURRENCY + 3
"""Faults strike every so many requests of the flaky provider. More than are in flight at once: between two
faults at least one request has ended well, so its circuit, which closes on two failures in a row, stays open."""


class Plan(NamedTuple):
    """What the flat-rate subscription covers: requests per five hours, tokens per week."""

    requests_per_5h: int
    tokens_per_week: int


def plan_for(workload: Workload) -> Plan:
    """A plan that covers about an eighth of the workload's requests and a third of its tokens."""
    periods = int(workload.span_s() // SHORT_WINDOW_S) + 1
    return Plan(
        requests_per_5h=max(10, len(workload.requests) // (8 * periods)),
        tokens_per_week=max(100_000, workload.input_tokens() // 3),
    )


def simulator_config(plan: Plan, speed: float, seed: int, api_key: str) -> dict[str, Any]:
    """The simulator's configuration. Durations are nominal: the simulator divides them by `speed` itself."""
    return {
        "seed": seed,
        "speed": speed,
        "providers": [
            _provider(FLAT, speed, api_key) | {"billing": "flat", "windows": _windows(plan)},
            _provider(METERED, speed, api_key),
            _provider(FLAKY, speed, api_key) | {"faults": _faults(speed)},
        ],
    }


def _provider(name: str, speed: float, api_key: str) -> dict[str, Any]:
    return {
        "id": name,
        "api_key": api_key,
        "tokens_per_event": 16,
        # Connections idle for 75 real seconds: shorter, a busy machine would lose them between two requests.
        "keep_alive_s": 75.0 * speed,
        "latency": {"ttft_ms": 500, "ttft_per_1k_input_ms": 15, "tokens_per_s": 80, "jitter": 0.2},
        # Prompts are kept for a day, as providers offer it: at demo speed five minutes would be one second.
        "cache": {"ttl_s": 24 * HOUR_S, "min_block_tokens": 1024, "block_tokens": 128},
        "models": [{"name": MODEL, **PRICES[name]}],
    }


def _windows(plan: Plan) -> list[dict[str, Any]]:
    return [
        {
            "name": SHORT_WINDOW,
            "duration_s": SHORT_WINDOW_S,
            "unit": "requests",
            "limit": plan.requests_per_5h,
            "kind": "first_request",
        },
        {
            "name": LONG_WINDOW,
            "duration_s": WEEK_S,
            "unit": "tokens",
            "limit": plan.tokens_per_week,
            "kind": "first_request",
        },
    ]


def _faults(speed: float) -> list[dict[str, Any]]:
    """Rarest first: of several that are due, the first one strikes. All but the last two force a failover."""
    retry_after_ms = str(max(1, round(8_000 / speed)))

    def every(faults: int, kind: str, **params: str) -> dict[str, Any]:
        return {"kind": kind, "every_n": faults * FAULT_SPACING} | ({"params": params} if params else {})

    return [
        every(13, "cut", after_tokens="40"),
        every(7, "rst"),
        every(5, "error_200"),
        every(3, "429", retry_after_ms=retry_after_ms),
        every(2, "529"),
        every(1, "503"),
        {"kind": "hidden_usage", "every_n": 120},
        {"kind": "header_stall", "every_n": 25, "params": {"seconds": "20"}},
    ]


def pool_windows(plan: Plan, speed: float) -> list[dict[str, Any]]:
    """The same windows as the gateway's config states them, in real seconds."""
    return [
        {
            "id": window["name"],
            "unit": window["unit"],
            "limit": window["limit"],
            "duration_s": window["duration_s"] / speed,
            "kind": window["kind"],
        }
        for window in _windows(plan)
    ]


def list_price(provider: str) -> dict[str, str]:
    """Prices of a provider's model as the gateway's config states them: decimal dollars per million tokens."""
    return {name: dollars(price) for name, price in PRICES[provider].items()}
