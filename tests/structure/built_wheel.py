"""Builds the wheel, installs it beside the locked dependencies and runs every room from it, not from the tree."""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
import venv
import zipfile
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent
SITE = Path(next(path for path in sys.path if path.endswith("site-packages")))
ROOMS = ("events", "gateway", "estimator", "planner", "simulator", "runtime", "projections", "analytics")
SMOKE = (
    "unit/events/test_codec.py",
    "unit/events/test_config.py",
    "unit/gateway/test_taxonomy.py",
    "unit/gateway/server/test_exchange.py",
    "unit/estimator/test_fold.py",
    "unit/estimator/test_log_runner.py",
    "unit/planner/test_decide.py",
    "unit/simulator/test_engine.py",
    "unit/simulator/test_http.py",
    "unit/runtime/test_settings.py",
    "unit/runtime/demo/test_command.py",
    "unit/projections/test_views.py",
    "unit/analytics/test_catalog.py",
    "unit/analytics/test_reconcile.py",
    "e2e/test_one_request.py",
)
PROBE = """
import importlib, pkgutil, sys
import tidegate
for room in sys.argv[2:]:
    package = importlib.import_module(f"tidegate.{room}")
    places = list(package.__path__)
    assert len(places) == 1 and places[0].startswith(sys.argv[1]), f"{room} comes from {places}"
    for found in pkgutil.walk_packages(places, f"tidegate.{room}."):
        if not found.name.endswith("__main__"):
            importlib.import_module(found.name)
"""


def tree() -> set[str]:
    """Every file of ours that a room needs at run time, as the wheel should name it."""
    found = set()
    for top in ("services", "projections", "analytics"):
        for path in (ROOT / top).rglob("*"):
            if path.is_file() and "tidegate" in path.parts and "__pycache__" not in path.parts:
                parts = path.relative_to(ROOT).parts
                found.add("/".join(parts[parts.index("tidegate") :]))
    return found


def contents(wheel: Path) -> list[str]:
    """What is wrong with the list of files in the wheel."""
    names = set(zipfile.ZipFile(wheel).namelist())
    ours = {name for name in names if name.startswith("tidegate/")}
    wrong = [
        f"the wheel owns more than `tidegate`: {name}"
        for name in sorted(names - ours)
        if not name.split("/")[0].endswith(".dist-info")
    ]
    wrong += [f"in the tree and not in the wheel: {name}" for name in sorted(tree() - ours)]
    return wrong + [f"in the wheel and not in the tree: {name}" for name in sorted(ours - tree())]


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        build = [
            sys.executable,
            "-m",
            "pip",
            "wheel",
            "-q",
            "--no-deps",
            "--no-build-isolation",
            "-w",
            folder,
        ]
        subprocess.run([*build, str(ROOT)], check=True)
        (wheel,) = work.glob("tidegate-*.whl")
        if wrong := contents(wheel):
            print("\n".join(wrong))
            return 1
        venv.create(work / "env", with_pip=False)
        python = str(work / "env" / "bin" / "python")
        site = next((work / "env" / "lib").glob("python*/site-packages"))
        zipfile.ZipFile(wheel).extractall(site)
        # Dependencies come from the locked environment; its editable hook to this tree must not.
        (site / "locked.pth").write_text(f"{SITE}\n")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        for command in (
            [python, "-c", PROBE, str(site), *ROOMS],
            [python, "-m", "tidegate.runtime", "--help"],
            [python, "-m", "tidegate.simulator", "--help"],
        ):
            done = subprocess.run(
                command, cwd=work, env=environment, check=False, capture_output=True, text=True
            )
            if done.returncode:
                print(f"{command[1:]} from the wheel:\n{done.stdout}{done.stderr}")
                return 1
        tests = [str(ROOT / "tests" / name) for name in SMOKE]
        return subprocess.run(
            [python, "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *tests],
            cwd=ROOT,
            env=environment,
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
