"""Every parser under guided fuzzing for a bounded time; what it finds new is kept in `build/fuzz`."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from support.fuzz_targets import TARGETS

pytest.importorskip("atheris", reason="the fuzzer has wheels for Linux on x86-64 only")
HERE = Path(__file__).resolve().parent
FOUND = HERE.parent.parent / "build" / "fuzz"
SECONDS_VARIABLE = "TIDEGATE_FUZZ_S"
"""How long each parser is fuzzed; `make fuzz` sets ten minutes."""
GRACE_S = 300


@pytest.mark.nightly
@pytest.mark.parametrize("name", TARGETS)
def test_no_bytes_break_a_promise_of_a_parser(name: str) -> None:
    seconds = int(os.environ.get(SECONDS_VARIABLE, "60"))
    done = subprocess.run(
        [sys.executable, str(HERE / "run_target.py"), name, str(seconds), str(FOUND)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds + GRACE_S,
    )
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "stat::number_of_executed_units" in done.stderr
