"""What `make test` tells: every suite that was named ran, and the last line says when the broker was not tested."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

import suites
from suites import BENCH, CHECK, NIGHTLY, PLANS, PYTEST, ROOT, TEST, Place, Suite, main

GOOD = [sys.executable, "-c", ""]
BAD = [sys.executable, "-c", "raise SystemExit(3)"]
BROKER_TEST = "import pytest\n@pytest.mark.kafka\ndef test_it(kafka): pass\n"


@pytest.fixture(autouse=True)
def _no_broker_is_asked_for(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Neither jars nor Maven nor Docker are to be found, and nobody requires a broker."""
    monkeypatch.delenv("TIDEGATE_REQUIRE_KAFKA", raising=False)
    monkeypatch.delenv("TIDEGATE_TEST_KAFKA", raising=False)
    monkeypatch.setenv("DOCKER_HOST", "unix:///nowhere/docker.sock")
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setenv("PATH", str(tmp_path))


MAKE = shutil.which("make") or "make"
CHECK_NAMES = [suite.name for suite in CHECK]


def broker_suite(folder: Path) -> Suite:
    """A suite of one test that asks for a broker, run as the real ones are."""
    program = folder / "test_program.py"
    program.write_text(BROKER_TEST)
    options = ["-p", "support.kafka_broker", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml")]
    return Suite("broker", [*PYTEST, *options, "--rootdir", str(folder), str(program)])


def test_the_last_line_says_that_the_broker_was_not_tested(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([Suite("good", GOOD), broker_suite(tmp_path), Suite("last", GOOD)], tmp_path / "build") == 0
    lines = capfd.readouterr().out.splitlines()
    assert lines[-1].startswith("BROKER NOT TESTED: no Kafka broker: ")
    assert "3 passed, 0 failed" in lines


def test_a_required_broker_that_is_not_there_fails_the_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_REQUIRE_KAFKA", "1")
    assert main([broker_suite(tmp_path)], tmp_path / "build") == 1
    out = capfd.readouterr().out
    assert "TIDEGATE_REQUIRE_KAFKA is set" in out
    assert "0 passed, 1 failed" in out
    assert out.splitlines()[-1].startswith("BROKER NOT TESTED: ")


def test_a_skip_where_the_broker_is_required_fails_the_run_even_if_its_suite_does_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TIDEGATE_REQUIRE_KAFKA", "1")
    skipping = f"import os; open(os.environ[{suites.MARKER_VARIABLE!r}], 'a').write('it was skipped\\n')"
    assert main([Suite("skips", [sys.executable, "-c", skipping])], tmp_path / "build") == 1


def test_a_run_with_a_broker_says_nothing_of_an_earlier_one_without(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    (tmp_path / "broker-not-tested").write_text("yesterday\n")
    assert main([Suite("good", GOOD)], tmp_path) == 0
    assert capfd.readouterr().out.splitlines()[-1] == "1 passed, 0 failed"


def test_a_failed_suite_fails_the_run_and_the_others_still_run(
    tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    assert main([Suite("bad", BAD), Suite("good", GOOD)], tmp_path) == 1
    out = capfd.readouterr().out
    assert [line.split()[:3] for line in out.splitlines() if line.startswith("bad")] == [["bad", "exit", "3"]]
    assert "1 passed, 1 failed" in out


def test_a_suite_whose_folder_holds_no_test_fails(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    assert main([Suite("gone", [*PYTEST, "tests/unit", "tests/nowhere"])], tmp_path) == 1
    out = capfd.readouterr().out
    assert "there is no test in tests/nowhere" in out
    assert "missing" in out


def meeting(mine: Path, other: Path, place: Place) -> Suite:
    """Ends once the other one runs: one after another they would wait for ever."""
    wait = "while not os.path.exists(sys.argv[2]): time.sleep(0.01)"
    program = f"import os, sys, time\nopen(sys.argv[1], 'x')\n{wait}\nprint('met', sys.argv[1])"
    return Suite(mine.name, [sys.executable, "-c", program, str(mine), str(other)], place)


@pytest.mark.parametrize("place", [Place.ONE_THREAD, Place.PROCESSES])
def test_suites_share_the_machine_and_are_told_in_their_own_order(
    tmp_path: Path, capfd: pytest.CaptureFixture[str], place: Place
) -> None:
    one, two = tmp_path / "one", tmp_path / "two"
    last = Suite("last", [sys.executable, "-c", f"open({str(two)!r}, 'r')"], Place.ALONE)
    pair = [meeting(one, two, Place.ONE_THREAD), meeting(two, one, place)]
    assert main([*pair, last], tmp_path / "build") == 0
    lines = capfd.readouterr().out.splitlines()
    assert {f"met {one}", f"met {two}"} <= set(lines)
    table = lines[next(n for n, line in enumerate(lines) if line.startswith("suite")) + 1 :]
    assert [line.split()[0] for line in table[:3]] == ["one", "two", "last"]


def test_suites_that_start_processes_run_one_after_another(tmp_path: Path) -> None:
    """Each fails where another is at work, and the second lane has nothing else to do."""
    busy = "import os, sys, time\nos.mkdir(sys.argv[1])\ntime.sleep(0.2)\nos.rmdir(sys.argv[1])"
    command = [sys.executable, "-c", busy, str(tmp_path / "at work")]
    assert main([Suite(name, command, Place.PROCESSES) for name in "abc"], tmp_path / "build") == 0


def test_what_is_measured_runs_here_and_is_counted_after_all_of_it() -> None:
    places = {suite.name: n for n, suite in enumerate(TEST)}
    measured = [suite for suite in TEST if suite.command[1:3] == ["-m", "coverage"]]
    beside_brokers = {suite.name for suite in measured if suite.place is not Place.ONE_THREAD}
    assert beside_brokers == {"kafka"}, (
        "of the suites that start processes only its own one is worth measuring"
    )
    assert {suite.name for suite in TEST if suite.place is Place.ALONE} == {"coverage"}
    assert max(places[suite.name] for suite in measured) < places["coverage"]
    starting = {suite.name for suite in TEST if suite.place is Place.PROCESSES}
    assert starting == {"kafka", "end to end", "crash"}


def test_every_place_that_a_plan_names_holds_tests() -> None:
    assert [place for plan in PLANS.values() for suite in plan for place in suites.missing(suite)] == []


def test_every_folder_of_tests_is_in_the_plan_that_ci_runs() -> None:
    named = {word for suite in TEST for word in suite.command if word.startswith("tests/")}
    folders = {f"tests/{path.name}" for path in (ROOT / "tests").iterdir() if any(path.rglob("test_*.py"))}
    assert folders - named == {"tests/agents", "tests/bench", "tests/fuzz"}
    assert set(CHECK_NAMES) <= {suite.name for suite in TEST}
    marked = {
        path.relative_to(ROOT / "tests").parts[0]
        for path in (ROOT / "tests").rglob("test_*.py")
        if "pytest.mark.nightly" in path.read_text() and path != Path(__file__)
    }
    assert {f"nightly {place}" for place in marked} == {suite.name for suite in NIGHTLY}
    assert BENCH


def test_the_makefile_and_ci_run_these_plans() -> None:
    makefile = (ROOT / "Makefile").read_text()
    for plan, target in (
        ("test", "test"),
        ("nightly", "test-nightly"),
        ("agents", "test-agents"),
        ("check", "check"),
        ("bench", "bench"),
        ("fuzz", "fuzz"),
    ):
        assert f"{target}: $(READY)\n\t$(BIN)/python tests/suites.py {plan}\n" in makefile
    ci = (ROOT / ".ci" / "run").read_text().splitlines()
    assert "export TIDEGATE_REQUIRE_KAFKA=1" in ci
    assert ci[-1] == 'exec make PYTHON="$PYTHON" test'


def test_what_make_starts_keeps_what_it_compiles() -> None:
    done = subprocess.run(
        [MAKE, "-s", "-f", "-", "shown"],
        input="include Makefile\nshown: ; @env\n",
        cwd=ROOT,
        env={"PATH": os.defpath, "PYTHONDONTWRITEBYTECODE": "1", "LANG": "C"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert "LANG=C\n" in done.stdout
    assert "PYTHONDONTWRITEBYTECODE" not in done.stdout


def test_an_unknown_plan_is_told() -> None:
    done = subprocess.run(
        [sys.executable, str(ROOT / "tests" / "suites.py"), "everything"],
        env={name: value for name, value in os.environ.items() if not name.startswith("COVERAGE")},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode != 0
    assert "usage: suites.py" in done.stderr
