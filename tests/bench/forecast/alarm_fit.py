"""Where the number of `bench.forecast.servegen.FALLING` comes from: python tests/bench/forecast/alarm_fit.py.

Recall and median lead of alarms on late parts of week one of ServeGen, by how much the log odds that ring fall over a
window. Week two is not looked at.
"""

import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]
sys.path.insert(0, str(ROOT / "tests"))

from bench.forecast.questions import past_quota  # noqa: E402
from bench.forecast.servegen import FIT, alarms  # noqa: E402
from bench.forecast.traffic import servegen, shared_folder  # noqa: E402

BEGIN = (8, 16, 24)
TRIED = (0.0, 0.5, 1.0, 2.0, 3.0)


def main() -> int:
    folder = shared_folder()
    if folder is None:
        print("no recorded data: set TIDEGATE_SHARED or put a folder `shared` beside the repository")
        return 2
    traffic = servegen(folder)
    quota = past_quota(traffic, FIT)
    for begin in BEGIN:
        for falling in TRIED:
            found = alarms(traffic, quota, range(begin, FIT.stop), falling)
            print(f"windows {begin} on, {falling}: {found['recall_30min']:.4f}, {found['lead_min']:.0f} min")
    return 0


if __name__ == "__main__":
    sys.exit(main())
