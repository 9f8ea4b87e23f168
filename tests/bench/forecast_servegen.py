"""Exhaustion forecasts on real traffic: Brier scores beside the base rate's and the UVI's yes or no.

Traffic: ServeGen (arXiv 2505.09999, Apache-2.0), request counts per client and ten minutes over two weeks; the
tokens of a bin are drawn, seeded, from the client's published length summaries. Windows are fixed 5 h, a
client's quota is the 70 % quantile of its window use in week one (none where that is zero). A decision every
30 minutes of a window in week two asks whether the quota will be used up before the reset; what is used up
already is no question. Forecasts see only bins that ended before they are asked.

Run: python tests/bench/forecast_servegen.py. Prints a table, writes build/forecast.json.
"""

import csv
import gzip
import json
import os
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from tidegate.estimator.columns import BoolArray, FloatArray, IntArray
from tidegate.estimator.consumption import BINS_PER_WINDOW, Consumption
from tidegate.estimator.exhaustion import forecast

REPOSITORY = Path(__file__).resolve().parents[2]
MODELS = ("m-large", "m-mid", "m-small")
BIN_S = 600
BINS = 2016
NS = 1_000_000_000
WINDOW_NS = 5 * 3600 * NS
BIN_NS = WINDOW_NS // BINS_PER_WINDOW
WEEK_ONE = 33
"""Windows 0 … 32 lie in week one, windows 34 … 66 in week two."""
WINDOWS = 67
DECISION_EVERY = 3
UNCERTAIN = 1e-4


@dataclass(frozen=True, slots=True)
class Traffic:
    """Tokens per client and bin, shape (clients, BINS), with each client's name."""

    names: list[tuple[str, int]]
    tokens: FloatArray


@dataclass(slots=True)
class Scores:
    """One entry per decision."""

    p: list[FloatArray] = field(default_factory=list)
    outcome: list[BoolArray] = field(default_factory=list)
    uvi: list[BoolArray] = field(default_factory=list)
    client: list[IntArray] = field(default_factory=list)

    def joined(self) -> tuple[FloatArray, FloatArray, FloatArray, IntArray]:
        return (
            np.concatenate(self.p),
            np.concatenate(self.outcome).astype(np.float64),
            np.concatenate(self.uvi).astype(np.float64),
            np.concatenate(self.client),
        )


def data_folder() -> Path | None:
    """Folder of the ServeGen files: `data/servegen` below TIDEGATE_SHARED or a sibling `shared`, if there."""
    root = os.environ.get("TIDEGATE_SHARED")
    shared = Path(root) if root else REPOSITORY.parent / "shared"
    folder = shared / "data" / "servegen"
    return folder if (folder / "client_rates_10min.csv.gz").is_file() else None


def load_traffic(folder: Path) -> Traffic:
    """All clients with two weeks of data; token draws are seeded and the same every time."""
    counts: dict[tuple[str, int], IntArray] = {}
    for row in _rows(folder / "client_rates_10min.csv.gz"):
        requests = counts.setdefault((row["model"], int(row["client"])), np.zeros(BINS, dtype=np.int64))
        at = int(float(row["t_s"])) // BIN_S
        if at < BINS:
            requests[at] = max(1, round(float(row["rate_rps"]) * BIN_S))
    lengths: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for row in _rows(folder / "client_lengths.csv.gz"):
        mean = float(row["in_mean"]) + float(row["out_mean"])
        var = float(row["in_sd"]) ** 2 + float(row["out_sd"]) ** 2
        lengths.setdefault((row["model"], int(row["client"])), []).append((float(row["t_s"]), mean, var))
    names = sorted(counts)
    rng = np.random.default_rng(1)
    tokens = np.zeros((len(names), BINS))
    for i, name in enumerate(names):
        pooled = [entry[1:] for key in lengths if key[0] == name[0] for entry in lengths[key]]
        own = sorted(lengths.get(name, [(0.0, *np.mean(pooled, axis=0))]))
        tokens[i] = _draw_tokens(counts[name], own, rng)
    return Traffic(names, tokens)


def _draw_tokens(
    requests: IntArray, lengths: list[tuple[float, float, float]], rng: np.random.Generator
) -> FloatArray:
    """Gamma draws with the mean and variance of the sum of that many requests."""
    starts, means, variances = (np.array(column) for column in zip(*lengths, strict=True))
    at = np.searchsorted(starts, np.arange(BINS) * BIN_S, side="right") - 1
    active = np.flatnonzero(requests)
    period = np.maximum(at[active], 0)
    mean = means[period]
    var = np.maximum(variances[period], 1e-6 * mean * mean)
    drawn = rng.gamma(requests[active] * mean * mean / var) * var / mean
    tokens = np.zeros(BINS)
    tokens[active] = np.maximum(np.round(drawn), 1.0)
    return tokens


def _rows(path: Path) -> list[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as lines:
        return [row for row in csv.DictReader(lines) if row["model"] in MODELS]


def quotas(tokens: FloatArray) -> FloatArray:
    """The 70 % quantile of each client's window use in week one."""
    use = tokens[:, : WEEK_ONE * BINS_PER_WINDOW].reshape(len(tokens), WEEK_ONE, BINS_PER_WINDOW).sum(axis=2)
    return np.quantile(use, 0.7, axis=1)


def pick_thirty(traffic: Traffic) -> Traffic:
    """Ten clients of each model: of those with a quota and active in a fifth of week one, evenly by number."""
    quota = quotas(traffic.tokens)
    share = (traffic.tokens[:, : WEEK_ONE * BINS_PER_WINDOW] > 0).mean(axis=1)
    chosen: list[int] = []
    for model in MODELS:
        fit = [
            i for i, name in enumerate(traffic.names) if name[0] == model and quota[i] > 0 and share[i] >= 0.2
        ]
        chosen += [fit[k * len(fit) // 10] for k in range(10)]
    return Traffic([traffic.names[i] for i in chosen], traffic.tokens[chosen])


def run(tokens: FloatArray) -> Scores:
    """Feed two weeks bin by bin; in week two ask every 30 minutes."""
    use = tokens[:, : WINDOWS * BINS_PER_WINDOW].reshape(len(tokens), WINDOWS, BINS_PER_WINDOW)
    quota = quotas(tokens)
    series = Consumption(len(tokens))
    series.open_series(np.arange(len(tokens)), np.full(len(tokens), WINDOW_NS))
    scores = Scores()
    for at in range(WINDOWS * BINS_PER_WINDOW):
        busy = np.flatnonzero(tokens[:, at])
        middle_ns = np.full(busy.size, at * BIN_NS + BIN_NS // 2)
        series.observe(busy, middle_ns, tokens[busy, at].astype(np.int64))
        window, bins = divmod(at + 1, BINS_PER_WINDOW)
        if window > WEEK_ONE and window < WINDOWS and bins and bins % DECISION_EVERY == 0:
            _ask(scores, series, window, bins, use, quota)
    return scores


def _ask(
    scores: Scores, series: Consumption, window: int, bins: int, use: FloatArray, quota: FloatArray
) -> None:
    used = use[:, window, :bins].sum(axis=1)
    open_ = np.flatnonzero((quota > 0) & (used < quota))
    now_ns = window * WINDOW_NS + bins * BIN_NS
    resets = np.full(open_.size, (window + 1) * WINDOW_NS)
    belief = forecast(series, open_, now_ns, resets, (quota - used)[open_])
    scores.p.append(belief.p_exhaust)
    scores.outcome.append((use[:, window].sum(axis=1) >= quota)[open_])
    scores.uvi.append((used / np.maximum(quota, 1.0) > bins / BINS_PER_WINDOW)[open_])
    scores.client.append(open_)


def report(scores: Scores) -> dict[str, float]:
    """Brier scores, calibration error and ranking; `base_rate` is the best constant, known afterwards."""
    p, outcome, uvi, client = scores.joined()
    base = float(outcome.mean())
    chosen = np.where(outcome > 0, p, 1.0 - p)
    tenth = np.minimum((p * 10).astype(np.int64), 9)
    gap = np.abs(np.bincount(tenth, p - outcome, minlength=10)).sum() / p.size
    return {
        "clients": float(np.unique(client).size),
        "decisions": float(p.size),
        "base_rate": base,
        "brier_constant": base * (1.0 - base),
        "brier_uvi": float(((uvi - outcome) ** 2).mean()),
        "brier": float(((p - outcome) ** 2).mean()),
        "log_score": float(-np.log(np.maximum(chosen, UNCERTAIN)).mean()),
        "ece": float(gap),
        "auc": _auc(p, outcome),
    }


def _auc(p: FloatArray, outcome: FloatArray) -> float:
    _, place, count = np.unique(p, return_inverse=True, return_counts=True)
    rank = (np.cumsum(count) - (count - 1) / 2)[place]
    hits = outcome.sum()
    return float((rank[outcome > 0].sum() - hits * (hits + 1) / 2) / (hits * (p.size - hits)))


def gain_interval(scores: Scores, against: str, draws: int = 1000) -> tuple[float, float, float]:
    """Loss of UVI or of the constant minus ours: mean and 95 % interval, paired bootstrap over clients."""
    p, outcome, uvi, client = scores.joined()
    other = uvi if against == "uvi" else np.full(p.size, outcome.mean())
    loss = (other - outcome) ** 2 - (p - outcome) ** 2
    totals, counts = np.bincount(client, loss), np.bincount(client)
    totals, counts = totals[counts > 0], counts[counts > 0]
    pick = np.random.default_rng(2).integers(0, totals.size, (draws, totals.size))
    means = totals[pick].sum(axis=1) / counts[pick].sum(axis=1)
    low, high = np.quantile(means, [0.025, 0.975])
    return float(loss.mean()), float(low), float(high)


def speeds(n: int = 10_000, asked: int = 1_000) -> dict[str, float]:
    """Least CPU time of several tries: closing a bin of `n` series, and one of `asked` forecasts in a batch."""
    series, who = Consumption(n), np.arange(n)
    series.open_series(who, np.full(n, WINDOW_NS))
    units = np.random.default_rng(3).integers(1, 100_000, n)
    step_s = [_cpu_s(lambda k=k: series.observe(who, np.full(n, k * BIN_NS), units)) for k in range(30)]
    some, resets, rest = who[:asked], np.full(asked, 60 * BIN_NS), np.full(asked, 1e6)
    ask_s = [_cpu_s(lambda: forecast(series, some, 31 * BIN_NS, resets, rest)) for _ in range(7)]
    return {"step_10000_series_ms": min(step_s[2:]) * 1e3, "forecast_in_batch_us": min(ask_s) / asked * 1e6}


def _cpu_s(call: Callable[[], object]) -> float:
    begin = time.process_time()
    call()
    return time.process_time() - begin


def main() -> int:
    folder = data_folder()
    if folder is None:
        print("no ServeGen data: set TIDEGATE_SHARED or put a folder `shared` beside the repository")
        return 2
    traffic = load_traffic(folder)
    result: dict[str, dict[str, float]] = {}
    for label, part in (("thirty", pick_thirty(traffic)), ("all", traffic)):
        scores = run(part.tokens)
        result[label] = report(scores)
        for against in ("uvi", "constant"):
            mean, low, high = gain_interval(scores, against)
            result[label] |= {
                f"gain_{against}": mean,
                f"gain_{against}_low": low,
                f"gain_{against}_high": high,
            }
    result["speed"] = speeds()
    print(f"{'':28}{'30 clients':>12}{'all':>12}")
    for key in result["all"]:
        print(f"{key:28}{result['thirty'][key]:12.4f}{result['all'][key]:12.4f}")
    for key, value in result["speed"].items():
        print(f"{key:28}{value:24.2f}")
    out = REPOSITORY / "build"
    out.mkdir(exist_ok=True)
    (out / "forecast.json").write_text(json.dumps(result, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
