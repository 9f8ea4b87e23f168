"""Recorded traffic as tables of units per series and bin: ServeGen, Azure, and coding sessions.

ServeGen (arXiv 2505.09999, Apache-2.0): request counts per client and ten minutes over two weeks; the tokens of a
bin are drawn, seeded, from the client's published length summaries. Azure (Splitwise, ISCA 2024, CC BY 4.0): 58
minutes of requests, split by a seeded draw into tenants. Coding sessions (kv-cache-tester, Apache-2.0): one user
each, whose windows open with the first request.
"""

import csv
import gzip
import json
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.consumption import BINS_PER_WINDOW

REPOSITORY = Path(__file__).resolve().parents[3]
MODELS = ("m-large", "m-mid", "m-small")
SERVEGEN_BIN_S = 600
SERVEGEN_WINDOWS = 67
AZURE_WINDOW_S = 300
AZURE_WINDOWS = 11
SESSION_WINDOW_S = 18_000
DOLLARS_PER_TOKEN = {"in": 3e-6, "cached": 0.3e-6, "out": 15e-6}
"""List prices of the prototype's sessions: new input, input that repeats the previous request, output."""


@dataclass(frozen=True, slots=True)
class Traffic:
    """`units` has shape (series, windows, BINS_PER_WINDOW); `window_s` is the length of a window."""

    names: list[str]
    units: FloatArray
    window_s: int

    def part(self, series: IntArray) -> "Traffic":
        return Traffic([self.names[i] for i in series], self.units[series], self.window_s)


def shared_folder() -> Path | None:
    """The folder of recorded data: TIDEGATE_SHARED or `shared` beside the repository, if it is there."""
    root = os.environ.get("TIDEGATE_SHARED")
    folder = (Path(root) if root else REPOSITORY.parent / "shared") / "data"
    return folder if folder.is_dir() else None


def servegen(folder: Path) -> Traffic:
    """Clients with two weeks of data, in tokens; the draws are seeded and the same every time."""
    bins = SERVEGEN_WINDOWS * BINS_PER_WINDOW
    counts: dict[tuple[str, int], IntArray] = {}
    for row in _rows(folder / "servegen" / "client_rates_10min.csv.gz", MODELS):
        requests = counts.setdefault((row["model"], int(row["client"])), np.zeros(2016, dtype=np.int64))
        at = int(float(row["t_s"])) // SERVEGEN_BIN_S
        if at < requests.size:
            requests[at] = max(1, round(float(row["rate_rps"]) * SERVEGEN_BIN_S))
    lengths: dict[tuple[str, int], list[tuple[float, float, float]]] = {}
    for row in _rows(folder / "servegen" / "client_lengths.csv.gz", MODELS):
        mean = float(row["in_mean"]) + float(row["out_mean"])
        var = float(row["in_sd"]) ** 2 + float(row["out_sd"]) ** 2
        lengths.setdefault((row["model"], int(row["client"])), []).append((float(row["t_s"]), mean, var))
    names = sorted(counts)
    rng = np.random.default_rng(1)
    tokens = np.zeros((len(names), 2016))
    for i, name in enumerate(names):
        pooled = [entry[1:] for key in lengths if key[0] == name[0] for entry in lengths[key]]
        own = sorted(lengths.get(name, [(0.0, *np.mean(pooled, axis=0))]))
        tokens[i] = _draw_tokens(counts[name], own, rng)
    units = tokens[:, :bins].reshape(len(names), SERVEGEN_WINDOWS, BINS_PER_WINDOW)
    return Traffic([f"{model}/{client}" for model, client in names], units, BINS_PER_WINDOW * SERVEGEN_BIN_S)


def _draw_tokens(
    requests: IntArray, lengths: list[tuple[float, float, float]], rng: np.random.Generator
) -> FloatArray:
    """Gamma draws with the mean and variance of the sum of that many requests."""
    starts, means, variances = (np.array(column) for column in zip(*lengths, strict=True))
    at = np.searchsorted(starts, np.arange(requests.size) * SERVEGEN_BIN_S, side="right") - 1
    active = np.flatnonzero(requests)
    period = np.maximum(at[active], 0)
    mean = means[period]
    var = np.maximum(variances[period], 1e-6 * mean * mean)
    drawn = rng.gamma(requests[active] * mean * mean / var) * var / mean
    tokens = np.zeros(requests.size)
    tokens[active] = np.maximum(np.round(drawn), 1.0)
    return tokens


def azure(folder: Path, trace: str, tenants: int) -> Traffic:
    """One of the two traces, `code` or `conv`, in tokens, split at random (seeded) into tenants."""
    path = folder / "azure-llm-2023" / f"AzureLLMInferenceTrace_{trace}.csv.gz"
    at_s, tokens = list[float](), list[int]()
    for row in _rows(path):
        at_s.append(datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp())
        tokens.append(int(row["ContextTokens"]) + int(row["GeneratedTokens"]))
    bins = ((np.array(at_s) - at_s[0]) / (AZURE_WINDOW_S / BINS_PER_WINDOW)).astype(np.int64)
    tenant = np.random.default_rng(7).integers(0, tenants, bins.size)
    units = np.zeros((tenants, AZURE_WINDOWS * BINS_PER_WINDOW))
    inside = bins < units.shape[1]
    np.add.at(units, (tenant[inside], bins[inside]), np.array(tokens, dtype=np.float64)[inside])
    names = [f"{trace}/{k}" for k in range(tenants)]
    return Traffic(names, units.reshape(tenants, AZURE_WINDOWS, BINS_PER_WINDOW), AZURE_WINDOW_S)


def sessions(folder: Path, unit: str) -> Traffic:
    """Windows of 5 h that open with a first request, one window a series, units in `requests` or nano-dollars.

    A session may give several windows, each begun by the first request after the last one ended; windows of fewer
    than five requests say nothing and are left out.
    """
    names, windows = list[str](), list[FloatArray]()
    for session in _jsonl(folder / "claude-code-sessions" / "claude_code_sessions.jsonl.gz"):
        opened, used = -1.0, np.zeros(BINS_PER_WINDOW)
        requests = 0
        for at_s, units in _priced(session, unit):
            if opened < 0 or at_s >= opened + SESSION_WINDOW_S:
                if requests >= 5:
                    names.append(str(session["id"]))
                    windows.append(used)
                opened, used, requests = at_s, np.zeros(BINS_PER_WINDOW), 0
            used[int((at_s - opened) / SESSION_WINDOW_S * BINS_PER_WINDOW)] += units
            requests += 1
        if requests >= 5:
            names.append(str(session["id"]))
            windows.append(used)
    return Traffic(names, np.array(windows)[:, None, :], SESSION_WINDOW_S)


def _priced(session: dict[str, Any], unit: str) -> list[tuple[float, float]]:
    """Time and units of each request: 1, or its list price with the input cached that repeats the request before."""
    requests = sorted(_requests(session, 0.0), key=lambda found: found[0])
    if unit == "requests":
        return [(at_s, 1.0) for at_s, _ in requests]
    found, warm = list[tuple[float, float]](), 0
    for at_s, request in requests:
        cached = min(warm, int(request["in"]))
        dollars = (
            DOLLARS_PER_TOKEN["in"] * (request["in"] - cached)
            + DOLLARS_PER_TOKEN["cached"] * cached
            + DOLLARS_PER_TOKEN["out"] * request["out"]
        )
        warm = int(request["in"])
        found.append((at_s, max(round(dollars * 1e9), 1)))
    return found


def _requests(holder: dict[str, Any], offset_s: float) -> Iterator[tuple[float, dict[str, Any]]]:
    for request in holder["requests"]:
        at_s = offset_s + float(request["t"])
        if request["type"] == "subagent":
            yield from _requests(request, at_s)
        else:
            yield at_s, request


def _rows(path: Path, models: tuple[str, ...] = ()) -> list[dict[str, str]]:
    with gzip.open(path, "rt", newline="") as lines:
        return [row for row in csv.DictReader(lines) if not models or row["model"] in models]


def _jsonl(path: Path) -> Iterator[dict[str, Any]]:
    with gzip.open(path, "rt") as lines:
        for line in lines:
            yield json.loads(line)


Loader = Callable[[Path], Traffic]
