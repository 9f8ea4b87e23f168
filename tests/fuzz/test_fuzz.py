"""Every parser under guided fuzzing for ten minutes, two at a time; what it finds new is kept in `build/fuzz`."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from pathlib import Path

import pytest

from support.fuzz_targets import TARGETS

pytest.importorskip("atheris", reason="the fuzzer has wheels for Linux on x86-64 only")
HERE = Path(__file__).resolve().parent
FOUND = HERE.parent.parent / "build" / "fuzz"
SECONDS_VARIABLE = "TIDEGATE_FUZZ_S"
"""How long each parser is fuzzed; ten minutes by default."""
SECONDS = 600
LANES = 2
GRACE_S = 300

Done = subprocess.CompletedProcess[str]


def fuzzed(name: str) -> Done:
    seconds = int(os.environ.get(SECONDS_VARIABLE, SECONDS))
    return subprocess.run(
        [sys.executable, str(HERE / "run_target.py"), name, str(seconds), str(FOUND)],
        capture_output=True,
        text=True,
        errors="replace",
        check=False,
        timeout=seconds + GRACE_S,
    )


@pytest.fixture(scope="module")
def runs(request: pytest.FixtureRequest) -> Iterator[dict[str, Future[Done]]]:
    """The fuzzers of the chosen tests: all begin with the first of these, as many at once as there are lanes."""
    chosen = [
        str(item.callspec.params["name"])
        for item in request.session.items
        if isinstance(item, pytest.Function) and item.path == Path(__file__)
    ]
    lanes = ThreadPoolExecutor(LANES)
    yield {name: lanes.submit(fuzzed, name) for name in chosen}
    lanes.shutdown(cancel_futures=True)


@pytest.mark.nightly
@pytest.mark.parametrize("name", TARGETS)
def test_no_bytes_break_a_promise_of_a_parser(name: str, runs: dict[str, Future[Done]]) -> None:
    done = runs[name].result()
    assert done.returncode == 0, done.stdout[-4000:] + done.stderr[-4000:]
    assert "stat::number_of_executed_units" in done.stderr
