"""Fails when a source file never appears in the coverage data: never-imported modules hide otherwise."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent.parent


def main() -> int:
    report = ROOT / "build" / "coverage.json"
    subprocess.run([sys.executable, "-m", "coverage", "json", "-q", "-o", str(report)], cwd=ROOT, check=True)
    measured = json.loads(report.read_text())
    files = {str(Path(name)) for name in measured["files"]}
    expected = {
        str(path.relative_to(ROOT))
        for top in ("services", "projections", "analytics")
        for path in (ROOT / top).rglob("*.py")
        if path.read_text().strip()
    }
    missing = sorted(expected - files)
    print(
        f"coverage of in-process suites: {measured['totals']['percent_covered']:.1f} % of {len(files)} files"
    )
    for name in missing:
        print(f"never seen by coverage: {name}")
    return 1 if missing else 0


if __name__ == "__main__":
    sys.exit(main())
