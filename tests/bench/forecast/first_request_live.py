"""Windows that open with a first request as an estimator publishes them: through its state, nothing passed by.

*Untaught*: each held-out session is a new plan, and no plan beside it has been used. *Two plans*: two others lived five
sessions of the other half, one a day; *ten plans* likewise. *Own* plans live a session a day, drawn from all, and are
asked about in the second half of 6 and of 20 days.
"""

from pathlib import Path

import numpy as np

from bench.forecast import scores
from bench.forecast.first_request import QUANTILE, halves
from bench.forecast.questions import PLACES
from bench.forecast.traffic import SESSION_WINDOW_S, sessions
from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.publish import publish
from tidegate.estimator.series_fields import BINS_PER_WINDOW
from tidegate.estimator.state import State
from tidegate.events.config import Pool, Routing, Window
from tidegate.events.types import PoolId, WindowId

_NS = 1_000_000_000
_WINDOW_NS = SESSION_WINDOW_S * _NS
_BIN_NS = _WINDOW_NS // BINS_PER_WINDOW
_DAY_NS, _MORNING_NS = 86_400 * _NS, 32_400 * _NS
_DAYS_TAUGHT = 5


class Plans:
    """Plans of one quota window each, and what was said of them and came."""

    def __init__(self, count: int, unit: str, quota: int) -> None:
        self.names = [PoolId(f"plan{k}") for k in range(count)]
        window = Window(
            id=WindowId("5h"),
            unit=unit,  # type: ignore[arg-type]
            limit=quota,
            duration_s=SESSION_WINDOW_S,
            kind="first_request",
        )
        self.routing = Routing(
            pools=tuple(Pool(id=name, billing="flat", windows=(window,)) for name in self.names)
        )
        self.state, self.quota = State(), quota
        opened = (
            self.state.window_of(self.state.pool(name, 0), window.id, _WINDOW_NS, first_request=True)
            for name in self.names
        )
        self.series: IntArray = np.fromiter(opened, dtype=np.int64)
        self.said, self.came = list[float](), list[bool]()

    def live(self, day: int, who: IntArray, units: FloatArray, *, ask: bool) -> None:
        """A session (bins) of each of `who`, from nine on; `ask` at the places while quota is left."""
        begin_ns = day * _DAY_NS + _MORNING_NS
        for bin_ in range(BINS_PER_WINDOW):
            if ask and bin_ in PLACES:
                self._ask(begin_ns + bin_ * _BIN_NS, who, units, bin_)
            busy = np.flatnonzero(units[:, bin_])
            series, used = self.series[who[busy]], units[busy, bin_].astype(np.int64)
            at = np.full(busy.size, begin_ns + bin_ * _BIN_NS + _BIN_NS // 2)
            self.state.use.observe(series, at, used)
            whole = np.full(busy.size, _WINDOW_NS)
            self.state.ledger.use(series, np.full(busy.size, begin_ns), used, whole)

    def _ask(self, now_ns: int, who: IntArray, units: FloatArray, bin_: int) -> None:
        left = np.flatnonzero(units[:, :bin_].sum(axis=1) < self.quota)
        asked = [self.names[k] for k in who[left].tolist()]
        beliefs = publish(self.state, now_ns, self.routing, (), asked).pools
        for k, name in zip(left, asked, strict=True):
            p = beliefs[name].windows[0].p_exhaust
            assert p is not None, "a window that was used has a chance"
            self.said.append(p)
            self.came.append(bool(units[k].sum() >= self.quota))

    def row(self) -> dict[str, float]:
        """Brier of what was published and of the rate at which it came, known in hindsight; means; calibration error."""
        p, outcome = np.array(self.said), np.array(self.came, dtype=np.float64)
        rate = float(outcome.mean())
        return {
            "hurdle": scores.brier(p, outcome),
            "base rate": rate * (1.0 - rate),
            "mean": float(p.mean()),
            "rate": rate,
            "ece": scores.calibration_error(p, outcome),
        }


def settings(folder: Path) -> dict[str, dict[str, float]]:
    """By unit and case."""
    found: dict[str, dict[str, float]] = {}
    for unit in ("requests", "nanousd"):
        fit, held = (half.units[:, 0] for half in halves(sessions(folder, unit)))
        quota = int(np.quantile(fit.sum(axis=1), QUANTILE))
        for label, teachers in (("untaught", 0), ("two plans", 2), ("ten plans", 10)):
            found[f"{unit} {label}"] = _young(fit, held, teachers, Plans(teachers + len(held), unit, quota))
        every = np.concatenate((fit, held))
        for days in (6, 20):
            found[f"{unit} own {days} days"] = _own(every, days, Plans(40, unit, quota))
    return found


def _young(fit: FloatArray, held: FloatArray, teachers: int, plans: Plans) -> dict[str, float]:
    order = np.random.default_rng(1).permutation(len(fit))
    for day in range(_DAYS_TAUGHT if teachers else 0):
        own = fit[order[(np.arange(teachers) + day * teachers) % len(fit)]]
        plans.live(day, np.arange(teachers), own, ask=False)
    plans.live(_DAYS_TAUGHT, teachers + np.arange(len(held)), held, ask=True)
    return plans.row()


def _own(every: FloatArray, days: int, plans: Plans) -> dict[str, float]:
    rng, who = np.random.default_rng(2), np.arange(len(plans.names))
    for day in range(days):
        drawn = every[rng.integers(0, len(every), who.size)]
        plans.live(day, who, drawn, ask=day >= days // 2)
    return plans.row()
