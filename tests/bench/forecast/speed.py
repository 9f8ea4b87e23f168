"""Speed of the models: a bin closed for ten thousand series, the bank alone, and forecasts in a batch. CPU time."""

import time
from collections.abc import Callable

import numpy as np

from tidegate.estimator import bank
from tidegate.estimator.consumption import Consumption
from tidegate.estimator.exhaustion import forecast
from tidegate.estimator.series_fields import BINS_PER_WINDOW

NS = 1_000_000_000
SERIES = 10_000
ASKED = 1_000
_BIN_NS = 600 * NS


def figures() -> dict[str, float]:
    """Least of several tries, in the unit of the name."""
    who = np.arange(SERIES)
    units = np.random.default_rng(3).integers(1, 100_000, SERIES)
    state = np.repeat(np.array(bank.PRIOR)[:, None], SERIES, axis=1)
    values = np.log(units.astype(np.float64))

    def step(k: int) -> None:
        bank.predict(state, np.ones(SERIES), np.full(SERIES, 600_000.0))
        bank.update(state, np.full(SERIES, k * 600_000.0), values)

    bank_s = min(_cpu_s(lambda k=k: step(k)) for k in range(12))
    series = Consumption(SERIES)
    series.open_series(who, np.full(SERIES, BINS_PER_WINDOW * _BIN_NS))
    steps = [_cpu_s(lambda k=k: series.observe(who, np.full(SERIES, k * _BIN_NS), units)) for k in range(60)]
    some, resets, rest = who[:ASKED], np.full(ASKED, 90 * _BIN_NS), np.full(ASKED, 1e6)
    ask_s = min(_cpu_s(lambda: forecast(series, some, 61 * _BIN_NS, resets, rest)) for _ in range(5))
    return {
        "bank_of_six_10000_ms": bank_s * 1e3,
        "six_states_10000_ms": bank_s * 1e3 / 2.0,
        "close_bin_10000_ms": float(np.median(steps[30:])) * 1e3,
        "close_bin_with_record_10000_ms": float(np.mean(steps[30:])) * 1e3,
        "p_exhaust_ms": ask_s / ASKED * 1e3,
    }


def _cpu_s(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin
