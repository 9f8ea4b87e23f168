"""Windows that open with a first request: coding sessions, each a user of its own, half of them held out.

The held-out quota is the 60 % quantile of the other half. A new series begins with what the other half taught;
baselines are calibrated on that half too. `live` are the decisions where the session used something in the hour
before: those are hard, while a session long idle hardly ever comes back.
"""

from pathlib import Path

import numpy as np

from bench.forecast import scores
from bench.forecast.baselines import Points, Residuals, ewma, residuals, uvi
from bench.forecast.hurdle import answers, taught
from bench.forecast.questions import PLACES, Task, asked, fixed
from bench.forecast.traffic import Traffic, sessions
from tidegate.estimator.columns import BoolArray, FloatArray
from tidegate.estimator.pooling import pooled
from tidegate.estimator.series_fields import BINS_PER_WINDOW

QUANTILE = 0.6
ONE_WINDOW = range(1)
_LIVE_BINS = 6
HALF_LIVES = (3.0, 6.0, 12.0, 24.0)


def halves(traffic: Traffic) -> tuple[Traffic, Traffic]:
    """Sessions of even number to learn from, of odd number to be asked about; a session is never in both."""
    odd = np.array([int(name.rsplit("_", 1)[-1]) % 2 == 1 for name in traffic.names])
    return traffic.part(np.flatnonzero(~odd)), traffic.part(np.flatnonzero(odd))


def settings(folder: Path) -> dict[str, dict[str, float]]:
    """Per unit, and for its live decisions alone: Brier of ours, of the base rate and of the baselines."""
    found: dict[str, dict[str, float]] = {}
    for unit in ("requests", "nanousd"):
        fit, held = halves(sessions(folder, unit))
        quota = float(np.quantile(fit.units[:, 0].sum(axis=1), QUANTILE))
        known, task = _task(fit, quota), _task(held, quota)
        marks = _marks(fit, held, known, task)
        live, known_live = _live(held, task), _live(fit, known)
        for label, mask, base in (("", None, known.outcome), (" live", live, known.outcome[known_live])):
            part = task if mask is None else task.where(mask)
            rates = {name: p if mask is None else p[mask] for name, p in marks.items()}
            rates["base rate"] = np.full(part.left.size, base.mean())
            row = {name: scores.brier(p, part.outcome) for name, p in rates.items()}
            row["ece"] = scores.calibration_error(rates["hurdle"], part.outcome)
            row["rate"] = float(part.outcome.mean())
            found[unit + label] = row
    return found


def _task(traffic: Traffic, quota: float) -> Task:
    return fixed(asked(traffic), np.full(len(traffic.names), quota), ONE_WINDOW)


def _live(traffic: Traffic, task: Task) -> BoolArray:
    recent = np.stack(
        [traffic.units[:, 0, max(place - _LIVE_BINS, 0) : place].sum(axis=1) > 0 for place in PLACES]
    )
    live: BoolArray = recent[task.place, task.series]
    return live


def _marks(fit: Traffic, held: Traffic, known: Task, task: Task) -> dict[str, FloatArray]:
    facts = asked(held)
    used = facts.used[0, task.place, task.series]
    marks = {
        "hurdle": answers(held, ONE_WINDOW, pooled(taught(fit)), fixed_clock=False).chance(task),
        "hurdle, untaught": answers(held, ONE_WINDOW, fixed_clock=False).chance(task),
        "uvi yes/no": (used / (used + task.left) > np.array(PLACES)[task.place] / BINS_PER_WINDOW).astype(
            np.float64
        ),
        "uvi, calibrated": _errors(uvi(fit, asked(fit)), fit, held).chance(uvi(held, facts), facts, task),
    }
    # As the other half would choose: the half-life with the least error there.
    losses = [
        scores.brier(
            _errors(ewma(fit, half_life), fit, fit).chance(ewma(fit, half_life), asked(fit), known),
            known.outcome,
        )
        for half_life in HALF_LIVES
    ]
    best = HALF_LIVES[int(np.argmin(losses))]
    errors = _errors(ewma(fit, best), fit, held)
    marks["ewma, calibrated"] = errors.chance(ewma(held, best), facts, task)
    return marks


def _errors(points: Points, fit: Traffic, held: Traffic) -> Residuals:
    """Errors of the first half; its mean window stands for the unknown one of each series of the other."""
    own = residuals(points, asked(fit), ONE_WINDOW)
    least = float(own.least.mean())
    return Residuals(own.by_class, np.full(len(held.names), least))
