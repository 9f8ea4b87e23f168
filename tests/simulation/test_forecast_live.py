"""Forecasts as they come out of the running estimator: intervals that cover, chances that come true, times that hold.

Seeded traffic of many flat plans goes through the log as signals, as gateways write them: a plan serves until its
window is used up and refuses until the reset. Engine, log and snapshots are real; time is moved by the test.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt
import pytest

from support.journals import make_ids
from tidegate.estimator.engine import Engine
from tidegate.estimator.exhaustion import forecast
from tidegate.events import codec
from tidegate.events.clock import ManualClock
from tidegate.events.config import Pool, Routing, Window
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Draft
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.log.port import Outgoing, Reader, Record, TopicPartition
from tidegate.events.partition import partition_of
from tidegate.events.registry import type_of
from tidegate.events.signals import DemandSeen, UsageSettled
from tidegate.events.snapshots import RateSnapshot, WindowBelief
from tidegate.events.topics import SIGNALS, SNAPSHOTS
from tidegate.events.types import AttemptId, DecisionId, EventId, PoolId, TargetId, WindowId

NS = 10**9
WINDOW_NS = 5 * 3600 * NS
BIN_NS = WINDOW_NS // 30
START_NS = 100_000 * WINDOW_NS
LEARNED, ASKED = 24, 14
"""Windows before the first question, and windows with questions."""
EVERY = 3
W = WindowId("5h")


class Alarms:
    def dead_letter(self, record: Record, error: str) -> None:
        raise AssertionError(error)

    def stopped(self, where: TopicPartition, error: str) -> None:
        raise AssertionError(error)


def traffic(seed: int) -> npt.NDArray[np.int64]:
    """Tokens per bin: comes and goes with the hour of the day, around a level that wanders."""
    rng = np.random.default_rng(seed)
    count = (LEARNED + ASKED) * 30
    hour = np.arange(count) / 6.0 % 24.0
    busy = 0.5 - 0.5 * np.cos(2 * np.pi * (hour - rng.uniform(0, 24)) / 24)
    start, stop = rng.uniform(0.05, 0.3), rng.uniform(0.1, 0.3)
    level, tokens, active = 0.0, np.zeros(count, dtype=np.int64), False
    for k in range(count):
        odds = 0.4 + 1.2 * busy[k]
        active = rng.random() < (1.0 - stop / odds if active else start * odds)
        level = 0.95 * level + 0.15 * rng.standard_normal()
        if active:
            tokens[k] = 1 + int(math.exp(9.0 + 0.6 * busy[k] + level + 0.5 * rng.standard_normal()))
    return tokens


@dataclass
class Plan:
    """A flat plan: what is asked of it, and what its window still serves."""

    name: PoolId
    tokens: npt.NDArray[np.int64]
    window: Window
    left: int = 0

    @classmethod
    def of(cls, seed: int) -> Plan:
        tokens = traffic(seed)
        learned = tokens[: LEARNED * 30].reshape(LEARNED, 30).sum(axis=1)
        limit = max(1, int(np.quantile(learned, 0.6)))
        return cls(
            PoolId(f"plan-{seed}"), tokens, Window(id=W, unit="tokens", limit=limit, duration_s=18_000)
        )

    def bin(self, k: int) -> Iterator[tuple[int, object]]:
        """What gateways write of bin `k`: four requests, served while they fit."""
        if k % 30 == 0:
            self.left = self.window.limit
        period_ns = START_NS + k // 30 * WINDOW_NS
        for part, units in enumerate(split(int(self.tokens[k]))):
            at_ns = START_NS + k * BIN_NS + (2 * part + 1) * BIN_NS // 8
            uses = (WindowUse(W, period_ns, units, WINDOW_NS),)
            fits = units <= self.left
            yield (
                at_ns,
                DemandSeen(
                    decision=DecisionId("d"),
                    pool=self.name,
                    windows=uses,
                    alternative_nanousd=units * 3_000,
                    chosen=fits,
                    refused_until_ns=None if fits else period_ns + WINDOW_NS,
                ),
            )
            if fits:
                self.left -= units
                yield (
                    at_ns,
                    UsageSettled(
                        attempt=AttemptId("a"),
                        target=TargetId(self.name),
                        pool=self.name,
                        route="r",
                        basis="reported",
                        outcome="completed",
                        windows=uses,
                        evidence=False,
                    ),
                )


def split(tokens: int) -> list[int]:
    return [part for part in (tokens // 4, tokens // 4, tokens // 4, tokens - 3 * (tokens // 4)) if part]


@dataclass
class Seen:
    """One entry per question that was open: a plan, a window, a time, with quota left."""

    p: list[float] = field(default_factory=list)
    dry: list[bool] = field(default_factory=list)
    place: list[float] = field(default_factory=list)
    """Where what was asked for in the end fell in the forecast: see `place_of`."""
    off_sd: list[float] = field(default_factory=list)
    """Of windows that ran dry as foreseen: error of the published time, in published standard deviations."""
    priced: list[float] = field(default_factory=list)


class Live:
    """An estimator over the plans, fed bin by bin."""

    def __init__(self, plans: list[Plan]) -> None:
        self.plans = plans
        self.clock = ManualClock(START_NS)
        self.log = MemoryEventLog(self.clock)
        routing = Routing(pools=tuple(Pool(id=p.name, billing="flat", windows=(p.window,)) for p in plans))
        self.engine = Engine(self.log, self.clock, make_ids(self.clock), routing, Alarms(), 0.25)
        self.seq = 0
        self.positions: dict[TopicPartition, int] = {}
        self.beliefs: dict[str, WindowBelief] = {}
        self.rng = np.random.default_rng(7)

    async def bin(self, reader: Reader, k: int) -> None:
        events = [(at, plan.name, data) for plan in self.plans for at, data in plan.bin(k)]
        await self.log.append([self._record(*event) for event in sorted(events, key=lambda event: event[0])])
        while batch := await reader.poll(5_000):
            self.engine.take(batch)
        self.clock.advance_ns(BIN_NS)

    def _record(self, at_ns: int, pool: PoolId, data: object) -> Outgoing:
        self.seq += 1
        kind, version = type_of(data)
        draft = Draft(
            id=EventId(f"e{self.seq}"),
            type=kind,
            v=version,
            ts=at_ns,
            source="gw-0@1",
            seq=self.seq,
            data=data,
        )
        return Outgoing(SIGNALS.name, partition_of(pool), pool.encode(), codec.encode(draft))

    async def ask(self) -> None:
        """Publish, and read what was published."""
        await self.engine.commit()
        rows, _ = await self.log.latest(SNAPSHOTS.name)
        for record in rows.values():
            data = codec.decode_data(codec.decode_envelope(record.value or b""))
            if isinstance(data, RateSnapshot) and data.pool is not None:
                self.beliefs[data.subject] = data.pool.windows[0]


def place_of(draws: npt.NDArray[np.float64], truth: float, chance: float) -> float:
    """Probability integral transform of `truth` in ascending draws, quantiles in the middles of equal parts.

    Between two draws it goes linearly, so that 32 of them are no grain. Often nothing more is asked for, and many draws
    say so: there the forecast jumps, and `chance` (uniform) takes a place within the jump (Smith 1985). Its middle
    would lie inside any interval whenever half of the draws are there, and intervals seemed to cover too much.
    """
    part, count = 1.0 / len(draws), len(draws)
    below, upto = int(np.searchsorted(draws, truth, "left")), int(np.searchsorted(draws, truth, "right"))
    if upto > below:
        return (below + chance * (upto - below)) * part
    if below in (0, count):
        return chance * part / 2.0 if below == 0 else 1.0 - chance * part / 2.0
    way = (truth - draws[below - 1]) / (draws[below] - draws[below - 1])
    return float((below - 0.5 + way) * part)


def judge(live: Live, k: int, seen: Seen) -> None:
    """Compare the beliefs after bin `k - 1` with what the window then was asked for."""
    engine, end = live.engine, (k // 30 + 1) * 30
    now_ns = START_NS + k * BIN_NS
    series = np.array([engine.state.windows[engine.state.pools[p.name], W] for p in live.plans])
    resets = np.full(series.size, START_NS + end * BIN_NS)
    ahead = forecast(engine.state.use, series, now_ns, resets, np.array([float(p.left) for p in live.plans]))
    for i, plan in enumerate(live.plans):
        belief = live.beliefs[f"pool:{plan.name}"]
        still = plan.tokens[k:end]
        share = plan.left / plan.window.limit
        if share < 0.02 or belief.p_exhaust is None:
            continue
        assert belief.used == plan.window.limit - plan.left
        seen.p.append(belief.p_exhaust)
        seen.dry.append(bool(still.sum() >= plan.left))
        seen.place.append(place_of(ahead.demand[:, i], float(still.sum()), live.rng.random()))
        seen.priced.append(belief.shadow_nanousd)
        if seen.dry[-1] and belief.p_exhaust > 0.7 and belief.exhausts_at_ns and belief.exhausts_sd_s:
            dry_at = now_ns + int(np.argmax(np.cumsum(still) >= plan.left)) * BIN_NS + BIN_NS // 2
            sd_s = max(belief.exhausts_sd_s, BIN_NS / NS / 2)
            seen.off_sd.append((belief.exhausts_at_ns - dry_at) / NS / sd_s)


async def watched(seeds: range) -> Seen:
    live, seen = Live([Plan.of(seed) for seed in seeds]), Seen()
    reader = live.log.reader(await live.engine.open())
    for k in range((LEARNED + ASKED) * 30):
        if k >= LEARNED * 30 and k % EVERY == 0 and k % 30:
            await live.ask()
            judge(live, k, seen)
        await live.bin(reader, k)
    await live.engine.close()
    return seen


def coverage(seen: Seen, share: float) -> float:
    edge = (1.0 - share) / 2.0
    return float(np.mean([edge <= place <= 1.0 - edge for place in seen.place]))


def expected_calibration_error(seen: Seen) -> float:
    p, dry = np.array(seen.p), np.array(seen.dry)
    bucket = np.minimum((p * 10).astype(int), 9)
    return float(
        sum(abs(p[bucket == b].mean() - dry[bucket == b].mean()) * np.mean(bucket == b) for b in set(bucket))
    )


async def test_few_plans_are_foreseen_as_they_come() -> None:
    seen = await watched(range(8))
    base = float(np.mean(seen.dry))
    brier = float(np.mean((np.array(seen.p) - np.array(seen.dry)) ** 2))
    assert len(seen.p) > 400
    assert brier < 0.75 * base * (1.0 - base)
    assert 0.70 <= coverage(seen, 0.8) <= 0.90
    assert expected_calibration_error(seen) < 0.10
    assert np.mean(np.abs(seen.off_sd) < 2.5) > 0.8
    assert min(seen.priced) > 0


@pytest.mark.nightly
async def test_fifty_plans_are_covered_as_promised() -> None:
    seen = await watched(range(100, 150))
    assert 0.77 <= coverage(seen, 0.8) <= 0.84
    assert 0.87 <= coverage(seen, 0.9) <= 0.93
    assert expected_calibration_error(seen) < 0.045
    assert np.mean(np.abs(seen.off_sd) < 2.0) > 0.9
