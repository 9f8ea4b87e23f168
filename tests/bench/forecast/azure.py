"""Azure: 5 min windows over 58 minutes, two traces split at random into 1, 10 and 60 tenants; relative quota.

Nothing of our model was chosen on it. Windows 0 … 4 fit and tune the baselines, windows 5 … 10 are scored.
"""

from pathlib import Path

from bench.forecast import scores
from bench.forecast.baselines import tuned
from bench.forecast.hurdle import answers
from bench.forecast.questions import asked, relative
from bench.forecast.traffic import AZURE_WINDOWS, azure
from tidegate.estimator.series_fields import BINS_PER_WINDOW

SETTINGS = tuple((trace, tenants) for trace in ("conv", "code") for tenants in (1, 10, 60))
FIT, SCORED = range(5), range(5, AZURE_WINDOWS)


def settings(folder: Path) -> dict[str, dict[str, float]]:
    """Per setting the Brier score of ours and of each calibrated baseline."""
    found: dict[str, dict[str, float]] = {}
    for trace, tenants in SETTINGS:
        traffic = azure(folder, trace, tenants)
        facts = asked(traffic)
        task = relative(facts, SCORED)
        ours = answers(traffic, SCORED)
        row = {"hurdle": scores.brier(ours.chance(task), task.outcome, task.weight)}
        for name, points, errors in tuned(traffic, FIT, BINS_PER_WINDOW):
            row[name] = scores.brier(errors.chance(points, facts, task), task.outcome, task.weight)
        found[f"{trace} {tenants}"] = row
    return found


def won(found: dict[str, dict[str, float]]) -> int:
    """Settings where ours is better than the best of the baselines."""
    return sum(row["hurdle"] < min(row[name] for name in row if name != "hurdle") for row in found.values())
