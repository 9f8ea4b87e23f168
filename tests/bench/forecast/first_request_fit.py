"""Where the numbers of `tidegate.estimator.first_request` come from: python tests/bench/forecast/first_request_fit.py.

Logistic regression on week one of ServeGen, cut into windows that open with a first request, of the clients that are
active in less than 30 % of it: people rest, and windows that follow each other without a pause never open so. Quota:
the 70 % quantile of each client's windows. Nothing is fitted to week two or to a coding session.
"""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from bench.forecast.hurdle import NS  # noqa: E402
from bench.forecast.pace_fit import fitted  # noqa: E402
from bench.forecast.questions import EVERY, FIXED_QUANTILE  # noqa: E402
from bench.forecast.servegen import FIT  # noqa: E402
from bench.forecast.traffic import SERVEGEN_BIN_S, servegen, shared_folder  # noqa: E402
from tidegate.estimator import activity  # noqa: E402
from tidegate.estimator.columns import FloatArray, IntArray  # noqa: E402
from tidegate.estimator.consumption import Consumption  # noqa: E402
from tidegate.estimator.exhaustion import forecast  # noqa: E402
from tidegate.estimator.first_request import features  # noqa: E402
from tidegate.estimator.series_fields import BINS_PER_WINDOW, CHAIN  # noqa: E402

RESTING = 0.3
_BIN_NS = SERVEGEN_BIN_S * NS


def opened_at(units: FloatArray) -> IntArray:
    """The bin in which the window opened that a bin lies in, −1 outside of windows: (series, bins) as `units`."""
    found = np.full(units.shape, -1)
    for series, row in enumerate(units):
        free_from = 0
        for bin_ in np.flatnonzero(row):
            if bin_ >= free_from:
                free_from = bin_ + BINS_PER_WINDOW
                found[series, bin_:free_from] = bin_
    return found


def _quotas(so_far: FloatArray, opened: IntArray) -> FloatArray:
    """Per series, of the windows that end within the time looked at; 0 where there is none."""
    quota = np.zeros(opened.shape[0])
    for series, row in enumerate(opened):
        begin = np.unique(row[row >= 0])
        begin = begin[begin + BINS_PER_WINDOW < so_far.shape[1]]
        if begin.size:
            use = so_far[series, begin + BINS_PER_WINDOW] - so_far[series, begin]
            quota[series] = np.quantile(use, FIXED_QUANTILE)
    return quota


def asked(units: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Features (4, questions) and outcomes; `units` (series, bins)."""
    n, bins = units.shape
    so_far = np.concatenate((np.zeros((n, 1)), units.cumsum(axis=1)), axis=1)
    opened = opened_at(units)
    quota, series = _quotas(so_far, opened), Consumption(n)
    series.open_series(np.arange(n), np.full(n, BINS_PER_WINDOW * _BIN_NS))
    read, outcomes = list[FloatArray](), list[FloatArray]()
    for bin_ in range(bins):
        begin = opened[:, bin_]
        used = so_far[:, bin_] - so_far[np.arange(n), begin]
        ask = (
            (begin >= 0) & (bin_ > begin) & ((bin_ - begin) % EVERY == 0) & (begin + BINS_PER_WINDOW <= bins)
        )
        who = np.flatnonzero(ask & (used < quota))
        if who.size:
            end, left, now_ns = begin[who] + BINS_PER_WINDOW, (quota - used)[who], bin_ * _BIN_NS
            p = forecast(series, who, now_ns, end * _BIN_NS, left).p_exhaust
            read.append(features(p, series.closed_at(who, now_ns)[CHAIN][activity.AGE]))
            outcomes.append((so_far[who, end] - so_far[who, bin_] >= left).astype(np.float64))
        busy = np.flatnonzero(units[:, bin_])
        at = np.full(busy.size, bin_ * _BIN_NS + _BIN_NS // 2)
        series.observe(busy, at, units[busy, bin_].astype(np.int64))
    return np.concatenate(read, axis=1), np.concatenate(outcomes)


def main() -> int:
    folder = shared_folder()
    if folder is None:
        print("no recorded data: set TIDEGATE_SHARED or put a folder `shared` beside the repository")
        return 2
    traffic = servegen(folder)
    units = traffic.units[:, FIT.start : FIT.stop].reshape(len(traffic.names), -1)
    read, outcome = asked(units[(units > 0).mean(axis=1) < RESTING])
    own, idle, age, one = fitted(read.T, outcome)
    print(
        f"{outcome.size} questions: log odds {own:.3f}, idle {idle:.3f}, per log bin {age:.3f}, constant {one:.3f}"
    )
    return 0


if __name__ == "__main__":
    sys.exit(main())
