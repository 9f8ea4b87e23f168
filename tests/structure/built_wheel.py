"""Builds the wheel, installs it beside the locked dependencies and runs unit tests against it, not the tree."""

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


def main() -> int:
    with tempfile.TemporaryDirectory() as folder:
        work = Path(folder)
        subprocess.run(
            [
                sys.executable,
                "-m",
                "pip",
                "wheel",
                "-q",
                "--no-deps",
                "--no-build-isolation",
                "-w",
                folder,
                str(ROOT),
            ],
            check=True,
        )
        (wheel,) = work.glob("tidegate-*.whl")
        tops = {name.split("/")[0] for name in zipfile.ZipFile(wheel).namelist()}
        unexpected = {top for top in tops if top != "tidegate" and not top.endswith(".dist-info")}
        if unexpected:
            print(f"the wheel owns more than `tidegate`: {sorted(unexpected)}")
            return 1
        venv.create(work / "env", with_pip=False)
        python = work / "env" / "bin" / "python"
        site = next((work / "env" / "lib").glob("python*/site-packages"))
        zipfile.ZipFile(wheel).extractall(site)
        # Dependencies come from the locked environment; its editable hook to this tree must not.
        (site / "locked.pth").write_text(f"{SITE}\n")
        environment = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
        probe = "import tidegate.events, tidegate.gateway, sys; print(list(tidegate.events.__path__)[0])"
        where = subprocess.run(
            [str(python), "-c", probe], cwd=work, env=environment, check=True, capture_output=True, text=True
        ).stdout.strip()
        if str(work) not in where:
            print(f"the tests would see {where}, not the wheel")
            return 1
        tests = [str(ROOT / "tests" / "unit" / room) for room in ("events", "planner", "runtime")]
        return subprocess.run(
            [str(python), "-m", "pytest", "-q", "--no-header", "-p", "no:cacheprovider", *tests],
            cwd=ROOT,
            env=environment,
            check=False,
        ).returncode


if __name__ == "__main__":
    sys.exit(main())
