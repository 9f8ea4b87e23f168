"""Forecasts of one quota window as the estimator publishes them, written into a made-up history."""

import random

from support.history import ROUTING, History, S
from tidegate.events.snapshots import PoolBelief, RateSnapshot, WindowBelief, pool_subject
from tidegate.events.topics import SNAPSHOTS
from tidegate.events.types import PoolId, WindowId

POOL, WINDOW = PoolId("told"), WindowId("10m")
LENGTH_NS = 600 * S


class Told:
    """Snapshots of one window, in order of time."""

    def __init__(self, history: History, limit: int = 100, *, rolling: bool = False) -> None:
        self.history = history
        self.limit = limit
        self.rolling = rolling
        self.begin_ns = history.clock.wall_ns()
        self._version = 0

    def at(
        self, at_s: float, used: int, p: float | None, *, start_s: float | None = None, **said: object
    ) -> None:
        """What is believed `at_s` seconds after the first period began, of the period that `start_s` began."""
        clock = self.history.clock
        clock.advance_ns(self.begin_ns + int(at_s * S) - clock.wall_ns())
        start_ns = self.begin_ns + int((600.0 * (at_s // 600) if start_s is None else start_s) * S)
        period = (None, None, LENGTH_NS) if self.rolling else (start_ns, start_ns + LENGTH_NS, None)
        belief = WindowBelief(
            window=WINDOW, period_start_ns=period[0], resets_at_ns=period[1], rolls_ns=period[2], used=used,
            limit=self.limit, p_exhaust=p, **said,  # type: ignore[arg-type]
        )  # fmt: skip
        self._version += 1
        snapshot = RateSnapshot(
            subject=pool_subject(POOL), version=self._version, at_ns=clock.wall_ns(),
            config=ROUTING.digest(), evidence=0, pool=PoolBelief(windows=(belief,)),
        )  # fmt: skip
        self.history.write(SNAPSHOTS, POOL, snapshot.subject, snapshot, slot="est")

    def periods(self, count: int, seed: int = 3) -> "Told":
        """Whole periods with ten forecasts each, of which about half run dry; the one after them has begun."""
        rng = random.Random(seed)
        for period in range(count):
            pace, used = rng.uniform(0.5, 1.8) * self.limit / 10, 0
            for k in range(10):
                rest = pace * (10 - k)
                p = min(max((used + rest) / self.limit - 0.5, 0.02), 0.98)
                quantiles = tuple(rest * factor for factor in (0.6, 0.7, 1.0, 1.3, 1.5))
                now_ns = self.begin_ns + int((600 * period + 60 * k) * S)
                self.at(
                    600 * period + 60 * k, used, p, remaining_quantiles=quantiles, will_exhaust=p >= 0.2,
                    exhausts_p10_ns=now_ns + 60 * S, exhausts_p50_ns=now_ns + 120 * S,
                )  # fmt: skip
                used = min(used + round(pace * rng.uniform(0.6, 1.4)), self.limit)
            self.at(600 * period + 599, used, 1.0 if used >= self.limit else 0.0)
        self.at(600 * count, 0, 0.4)
        return self
