"""ServeGen: fixed and relative quotas over 5 h windows. Fitted on week one, scored on week two.

A client's quota is the 70 % quantile of its window use in week one. Windows that used nothing are left out (their
answer is easy); `fixed_all_brier` has them too. Whole, and apart for the clients of odd and of even number.
"""

from dataclasses import dataclass
from typing import Any

import numpy as np

from bench.forecast import scores
from bench.forecast.baselines import tuned
from bench.forecast.hurdle import Answers, answers
from bench.forecast.questions import PLACES, Asked, Task, asked, fixed, lead_s, past_quota, relative
from bench.forecast.traffic import Traffic
from tidegate.estimator.columns import BoolArray, FloatArray, IntArray
from tidegate.estimator.series_fields import BINS_PER_WINDOW

FIT, SCORED = range(33), range(34, 67)
"""Windows of week one and of week two; window 33 lies in both weeks."""
TUNED = range(2, 33)
DAY_BINS = 144
HALF_HOUR_S = 1800.0
ALARM_PLACES = tuple(range(1, 27))
"""Bins after which an alarm may go off: after each of which the quota can still last for half an hour and run dry."""
ACTIVITY = (("rare", 0.0, 0.1), ("some", 0.1, 0.5), ("dense", 0.5, 1.01))
"""Clients by the share of bins in which they are active."""
CERTAIN = 1e-4
FALLING = 1.0
"""By how much the log odds that ring fall over a window: later on less is open, and quiet windows are seen as such.
Week one has more recall with any number from 0.5 to 3 than without, whichever of its windows are taken; up to 1 the lead
is no shorter in any of them: see alarm_fit.py."""


@dataclass(frozen=True, slots=True)
class Marks:
    """Probabilities of one forecaster on the two tasks."""

    fixed: FloatArray
    relative: FloatArray


@dataclass(frozen=True, slots=True)
class Evaluation:
    """All that was asked and answered; `marks` begins with ours, which is called `hurdle`."""

    traffic: Traffic
    facts: Asked
    quota: FloatArray
    fixed: Task
    every: Task
    relative: Task
    answers: Answers
    marks: dict[str, Marks]
    every_brier: float


def evaluate(traffic: Traffic) -> Evaluation:
    facts, quota = asked(traffic), past_quota(traffic, FIT)
    on_fixed, on_relative = fixed(facts, quota, SCORED), relative(facts, SCORED)
    every = fixed(facts, quota, SCORED, active_only=False)
    ours = answers(traffic, SCORED)
    marks = {
        "hurdle": Marks(ours.chance(on_fixed), ours.chance(on_relative)),
        "hurdle, no pace": Marks(ours.recorded_chance(on_fixed), ours.recorded_chance(on_relative)),
        "hurdle, raw": Marks(ours.raw_chance(on_fixed), ours.raw_chance(on_relative)),
        "uvi yes/no": Marks(_yes_no(facts, on_fixed), _yes_no(facts, on_relative)),
    }
    for name, points, errors in tuned(traffic, TUNED, DAY_BINS):
        marks[f"{name}, calibrated"] = Marks(
            errors.chance(points, facts, on_fixed), errors.chance(points, facts, on_relative)
        )
    every_brier = scores.brier(ours.chance(every), every.outcome)
    return Evaluation(traffic, facts, quota, on_fixed, every, on_relative, ours, marks, every_brier)


def _yes_no(facts: Asked, task: Task) -> FloatArray:
    used = facts.used[task.window, task.place, task.series]
    elapsed = np.array(PLACES)[task.place] / BINS_PER_WINDOW
    return (used / (used + task.left) > elapsed).astype(np.float64)


def table(found: Evaluation, parity: int | None = None) -> dict[str, dict[str, float]]:
    """Per forecaster: Brier and its parts, ranking, calibration error, recall and lead; and the gain of ours over it.

    `parity` 0 or 1 keeps the clients of even or odd number.
    """
    of_fixed, of_relative = _of(found.fixed, parity), _of(found.relative, parity)
    task, other = found.fixed.where(of_fixed), found.relative.where(of_relative)
    ours = found.marks["hurdle"]
    rows: dict[str, dict[str, float]] = {}
    for name, marks in found.marks.items():
        p, q = marks.fixed[of_fixed], marks.relative[of_relative]
        reliability, resolution, uncertainty = scores.murphy(p, task.outcome)
        row = {
            "fixed": scores.brier(p, task.outcome),
            "relative": scores.brier(q, other.outcome, other.weight),
            "ece": scores.calibration_error(p, task.outcome),
            "auc": scores.auc(p, task.outcome),
            "log_score": scores.log_score(p, task.outcome),
            "reliability": reliability,
            "resolution": resolution,
            "uncertainty": uncertainty,
        }
        row |= announced(found, task, p)
        loss, its = (ours.fixed[of_fixed] - task.outcome) ** 2, (p - task.outcome) ** 2
        row["gain"], row["gain_low"], row["gain_high"] = scores.gain_interval(loss, its, task.series)
        rows[name] = row
    return rows


def _of(task: Task, parity: int | None) -> np.ndarray[tuple[int], np.dtype[np.bool_]]:
    return np.ones(task.left.size, dtype=np.bool_) if parity is None else task.series % 2 == parity


def announced(found: Evaluation, task: Task, p: FloatArray) -> dict[str, float]:
    """Recall and lead where alarms may go off at PLACES, at one limit: all forecasters alike, see `scores.announced`."""
    lead = lead_s(found.traffic, task, found.quota)
    heard = np.where(np.array(PLACES)[task.place] <= ALARM_PLACES[-1], p, -1.0)
    recall, first = scores.announced(heard, task.outcome, _window(found.traffic, task), lead, HALF_HOUR_S)
    return {"recall_30min": recall, "lead_min": _median_min(first)}


def alarms(
    traffic: Traffic, quota: FloatArray, windows: range = SCORED, falling: float = FALLING
) -> dict[str, Any]:
    """Our alarms when asked after each bin, at log odds that fall with the window; whole and by parity of clients.

    `leads_min`: from the first alarm of each window announced to when its quota may first be gone.
    """
    task = fixed(asked(traffic, ALARM_PLACES), quota, windows)
    p = np.clip(answers(traffic, windows, places=ALARM_PLACES).chance(task), CERTAIN, 1.0 - CERTAIN)
    gone = np.array(ALARM_PLACES)[task.place] / BINS_PER_WINDOW
    score = np.log(p / (1.0 - p)) + falling * gone
    lead, window = lead_s(traffic, task, quota, ALARM_PLACES), _window(traffic, task)
    found: dict[str, Any] = {}
    for label, parity in (("", None), ("_even", 0), ("_odd", 1)):
        of = _of(task, parity)
        recall, first = scores.announced(score[of], task.outcome[of], window[of], lead[of], HALF_HOUR_S)
        found[f"recall_30min{label}"] = recall
        if parity is None:
            found["lead_min"] = _median_min(first)
            found["lead_in_time_min"] = _median_min(first[first >= HALF_HOUR_S])
            found["leads_min"] = [round(seconds / 60.0, 1) for seconds in first.tolist()]
    return found


def _median_min(lead_s: FloatArray) -> float:
    return float(np.median(lead_s)) / 60.0 if lead_s.size else 0.0


def _window(traffic: Traffic, task: Task) -> IntArray:
    found: IntArray = task.series * traffic.units.shape[1] + task.window
    return found


def distribution(found: Evaluation) -> dict[str, float]:
    """Share of windows with use whose rest lay between the published points, bounds included, and in the middle half
    of what is believed (drawn where it has weight of its own); CRPS over the window's total."""
    rng = np.random.default_rng(5)
    places, inside, ratios = list[FloatArray](), list[BoolArray](), list[FloatArray]()
    for window in SCORED:
        for place in range(len(PLACES)):
            draws, rest = found.answers.corrected(window, place), found.facts.rest[window, place]
            total = rest + found.facts.used[window, place]
            some = total > 0
            points = found.answers.points(window, place)
            inside.append(((points[[1, 0]] <= rest) & (rest <= points[[3, 4]]))[:, some])
            places.append(found.answers.place_of(window, place, rest, rng)[some])
            ratios.append((scores.crps(draws, rest) / np.maximum(total, 1.0))[some])
    away, ratio = np.abs(np.concatenate(places) - 0.5), np.concatenate(ratios)
    covered = np.concatenate(inside, axis=1).mean(axis=1)
    return {
        "coverage_50": float(np.mean(away <= 0.25)),
        "coverage_80": float(covered[0]),
        "coverage_90": float(covered[1]),
        "crps_of_total_median": float(np.median(ratio)),
    }


def by_place(found: Evaluation) -> list[float]:
    """Brier of ours at each place of a window, relative quota."""
    task, p = found.relative, found.marks["hurdle"].relative
    return [
        scores.brier(p[task.place == k], task.outcome[task.place == k], task.weight[task.place == k])
        for k in range(len(PLACES))
    ]


def bounds(traffic: Traffic, facts: Asked, task: Task, p: FloatArray) -> dict[str, float]:
    """What bounds the error of `p`, fixed quota: Brier by how much of the time a client is active, the share of the
    whole error that is theirs; and Brier with what nobody can know, calibration in tenths as it came, or whether
    anything at all will be used of what is left of the window."""
    active = (traffic.units > 0).mean(axis=(1, 2))[task.series]
    loss = (p - task.outcome) ** 2
    found: dict[str, float] = {}
    for label, low, high in ACTIVITY:
        mine = (active >= low) & (active < high)
        found[f"brier_{label}"] = float(loss[mine].mean())
        found[f"rate_{label}"] = float(task.outcome[mine].mean())
        found[f"share_of_questions_{label}"] = float(mine.mean())
        found[f"share_of_error_{label}"] = float(loss[mine].sum() / loss.sum())
    reliability = scores.murphy(p, task.outcome)[0]
    found["brier_calibrated_in_hindsight"] = float(loss.mean()) - reliability
    more = facts.rest[task.window, task.place, task.series] > 0
    found["brier_if_told_whether_more_comes"] = scores.brier(np.where(more, p, 0.0), task.outcome)
    rate = task.outcome.mean()
    found["brier_base_rate"] = float(rate * (1.0 - rate))
    return found
