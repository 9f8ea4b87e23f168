"""Requests with what they would cost where they are billed: coding sessions placed in time, and the Azure traces.

Coding sessions (kv-cache-tester, Apache-2.0): 692 real sessions, placed by a seeded draw into two weeks of working
days. Azure (Splitwise, ISCA 2024, CC BY 4.0): 58 minutes of requests of one tenant. A request's output is not known
before it is answered: `expected` has the running mean of the session, shrunk to that of all, in its place.
"""

import csv
import gzip
import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from datetime import datetime
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray

NS = 1_000_000_000
START_NS = 1_767_571_200 * NS
"""A Monday, midnight UTC."""
DAYS = 14
STEPS = 300
"""How often in a window the shadow prices are worked out again: of 5 h every minute, where production does it at most
four times a second. Every five minutes lost half a point of the saving, every half a minute gains nothing more."""
CACHE_TTL_S = 300.0
PRICE = {"in": 3_000.0, "write": 3_750.0, "read": 300.0, "out": 15_000.0}
"""Nano-dollars per token: the list prices of the design's notes."""
_SHRINK_REQUESTS = 8.0
_PRIOR_OUTPUT = 500.0
_HOUR_WEIGHT = np.array([1, 1, 1, 1, 1, 1, 2, 4, 8, 12, 14, 14, 10, 12, 14, 14, 12, 10, 7, 5, 5, 4, 3, 2])
_DAY_WEIGHT = np.array([1.0, 1.0, 1.0, 1.0, 1.0, 0.3, 0.3])


@dataclass(frozen=True, slots=True)
class Stream:
    """Requests in time order; money in nano-dollars. `reference` is the list price with nothing cached."""

    name: str
    at_ns: IntArray
    tokens: IntArray
    expected_tokens: IntArray
    cost: FloatArray
    expected: FloatArray
    reference: FloatArray
    window_ns: int
    step_ns: int
    """How often the shadow prices are worked out again."""
    scored_from_ns: int
    """Windows before it are learned from but not scored."""
    ends_ns: int
    """End of what was recorded: a window that it cuts short is not scored, for nobody could know that."""


class _Request(NamedTuple):
    at_s: float
    session: int
    input: int
    cached: int
    output: int


def agents(folder: Path, seed: int) -> Stream:
    """Coding sessions under one placement in time; windows of 5 h; the first day is not scored."""
    rng = np.random.default_rng(seed)
    hours = (_DAY_WEIGHT[np.arange(DAYS) % 7][:, None] * _HOUR_WEIGHT[None, :]).ravel()
    requests: list[_Request] = []
    with gzip.open(folder / "claude-code-sessions" / "claude_code_sessions.jsonl.gz", "rt") as lines:
        for session, line in enumerate(lines):
            hour = rng.choice(hours.size, p=hours / hours.sum())
            requests += _session(json.loads(line), session, 3600.0 * (hour + float(rng.random())))
    requests = sorted(each for each in requests if each.at_s < DAYS * 86_400)
    return _stream(f"agents/{seed}", requests, 5 * 3600 * NS, 86_400 * NS, DAYS * 86_400 * NS)


def _session(session: dict[str, Any], number: int, begin_s: float) -> Iterator[_Request]:
    warm, last_s = 0, -1e9
    for at_s, request in sorted(_flat(session, begin_s), key=lambda found: found[0]):
        cached = min(warm, int(request["in"])) if at_s - last_s <= CACHE_TTL_S else 0
        warm, last_s = int(request["in"]), at_s
        yield _Request(at_s, number, warm, cached, int(request["out"]))


def _flat(holder: dict[str, Any], offset_s: float) -> Iterator[tuple[float, dict[str, Any]]]:
    for request in holder["requests"]:
        at_s = offset_s + float(request["t"])
        if request["type"] == "subagent":
            yield from _flat(request, at_s)
        else:
            yield at_s, request


def azure(folder: Path, trace: str) -> Stream:
    """The trace `code` or `conv`, nothing cached; windows of 5 min; the first window is not scored."""
    requests: list[_Request] = []
    path = folder / "azure-llm-2023" / f"AzureLLMInferenceTrace_{trace}.csv.gz"
    with gzip.open(path, "rt", newline="") as lines:
        for row in csv.DictReader(lines):
            at_s = datetime.fromisoformat(row["TIMESTAMP"][:26]).timestamp()
            requests.append(_Request(at_s, 0, int(row["ContextTokens"]), 0, int(row["GeneratedTokens"])))
    begin_s = requests[0].at_s
    requests = [each._replace(at_s=each.at_s - begin_s) for each in requests]
    return _stream(f"azure/{trace}", requests, 300 * NS, 300 * NS, int(requests[-1].at_s * NS))


def _stream(
    name: str, requests: Sequence[_Request], window_ns: int, scored_from_ns: int, ends_ns: int
) -> Stream:
    read = np.array([each.cached for each in requests], dtype=np.float64)
    inputs = np.array([each.input for each in requests], dtype=np.float64)
    output = np.array([each.output for each in requests], dtype=np.float64)
    guess = np.array(_expected_outputs(requests))
    fresh = PRICE["write"] if np.any(read > 0) else PRICE["in"]
    prompt = PRICE["read"] * read + fresh * (inputs - read)
    return Stream(
        name=name,
        at_ns=START_NS + np.array([int(each.at_s * NS) for each in requests], dtype=np.int64),
        tokens=(inputs + output).astype(np.int64),
        expected_tokens=np.rint(inputs + guess).astype(np.int64),
        cost=prompt + PRICE["out"] * output,
        expected=prompt + PRICE["out"] * guess,
        reference=PRICE["in"] * inputs + PRICE["out"] * guess,
        window_ns=window_ns,
        step_ns=window_ns // STEPS,
        scored_from_ns=START_NS + scored_from_ns,
        ends_ns=START_NS + ends_ns,
    )


def _expected_outputs(requests: Sequence[_Request]) -> list[float]:
    """Before each request: mean output of its session so far, shrunk to the mean of all, from the past only."""
    sums: dict[int, list[float]] = {}
    total, count = _PRIOR_OUTPUT * _SHRINK_REQUESTS, _SHRINK_REQUESTS
    found: list[float] = []
    for each in requests:
        own = sums.setdefault(each.session, [0.0, 0.0])
        found.append((own[0] + _SHRINK_REQUESTS * total / count) / (own[1] + _SHRINK_REQUESTS))
        own[0], own[1] = own[0] + each.output, own[1] + 1.0
        total, count = total + each.output, count + 1.0
    return found
