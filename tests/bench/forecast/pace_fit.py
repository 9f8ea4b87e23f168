"""Where the two numbers of `tidegate.estimator.pace` come from: python tests/bench/forecast/pace_fit.py.

Logistic regression without a constant on week one of ServeGen, quota the 70 % quantile of each client: outcome on
the model's log odds and on how far the pace of the window exceeds what is left. Week two is not looked at.
"""

import sys
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from bench.forecast.hurdle import answers  # noqa: E402
from bench.forecast.questions import PLACES, asked, fixed, past_quota  # noqa: E402
from bench.forecast.servegen import FIT  # noqa: E402
from bench.forecast.traffic import servegen, shared_folder  # noqa: E402
from tidegate.estimator.columns import FloatArray  # noqa: E402
from tidegate.estimator.pace import FARTHEST, LEAST, SURE  # noqa: E402
from tidegate.estimator.series_fields import BINS_PER_WINDOW  # noqa: E402

LEARNED = range(8, FIT.stop)
"""Before these windows the model itself has hardly begun to learn."""
_STEPS = 25


def fitted(features: FloatArray, outcome: FloatArray) -> FloatArray:
    """Coefficients by Newton's method, with a unit normal prior."""
    found = np.zeros(features.shape[1])
    for _ in range(_STEPS):
        mean = 1.0 / (1.0 + np.exp(-features @ found))
        weight = (mean * (1.0 - mean))[:, None]
        curvature = features.T @ (features * weight) + np.eye(found.size)
        found = found + np.linalg.solve(curvature, features.T @ (outcome - mean) - found)
    return found


def main() -> int:
    folder = shared_folder()
    if folder is None:
        print("no recorded data: set TIDEGATE_SHARED or put a folder `shared` beside the repository")
        return 2
    traffic = servegen(folder)
    facts = asked(traffic)
    task = fixed(facts, past_quota(traffic, FIT), LEARNED)
    p = np.clip(answers(traffic, LEARNED).recorded_chance(task), SURE, 1.0 - SURE)
    at = task.window, task.place, task.series
    elapsed, used = np.array(PLACES)[task.place] / BINS_PER_WINDOW, facts.used[at]
    quota = used + task.left
    excess = np.log((used / quota * (1.0 - elapsed) / elapsed + LEAST) / (task.left / quota + LEAST))
    short = np.where(facts.idle[at], 0.0, np.clip(excess, -FARTHEST, FARTHEST))
    own, pace = fitted(np.stack((np.log(p / (1.0 - p)), short), axis=1), task.outcome)
    print(f"weight of the model's log odds {own:.3f}, of the pace {pace:.3f}")
    return 0


if __name__ == "__main__":
    sys.exit(main())
