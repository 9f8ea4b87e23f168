"""Commands when the log does not answer: told from what lies beside it, and never less than is said."""

import asyncio
import json
import re
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from support.history import History
from support.read_model import folded
from tidegate.events.archive import Archiver
from tidegate.events.decision import DecisionMade
from tidegate.runtime.cli import app
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import load_settings

pytestmark = pytest.mark.slow  # each opens databases
ALL_NS = 1 << 62
HERE = 'data_dir = "data"\n'
AWAY = HERE + '[log]\nkind = "kafka"\nbootstrap = "127.0.0.1:1"\n'


class Place:
    """A folder with a config, its log, archive and read model."""

    def __init__(self, folder: Path, history: History) -> None:
        self.config = folder / "tidegate.toml"
        self.config.write_text(HERE)
        self.machine = Machine(load_settings(self.config), base=folder, env={})
        self.machine.make_folders()
        self.machine.projections_path.parent.mkdir(parents=True, exist_ok=True)
        self.decisions = [e.draft.data for e in history.events if isinstance(e.draft.data, DecisionMade)]
        asyncio.run(self._write(history))

    async def _write(self, history: History) -> None:
        log = self.machine.open_log(("relay", "estimator", "control"))
        for record in history.outgoing():
            await log.append([record])
        await folded(log, self.machine.projections_path)
        await log.close()

    def archive(self, until_ns: int = ALL_NS) -> None:
        async def run() -> None:
            log = self.machine.open_log()
            archiver = Archiver(log, self.machine.archive_dir)
            await archiver.run(until_ns)
            archiver.close()
            await log.close()

        asyncio.run(run())

    def lose_log(self) -> None:
        self.config.write_text(AWAY)

    def tell(self, *arguments: str) -> tuple[int, str, str]:
        done = CliRunner().invoke(app, [*arguments, "-c", str(self.config)])
        assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
        return done.exit_code, done.stdout, done.stderr


def told(place: Place, *arguments: str) -> tuple[int, dict[str, Any]]:
    code, out, _ = place.tell(*arguments, "--json")
    return code, json.loads(out)


def sorted_examples(answer: tuple[int, dict[str, Any]]) -> tuple[int, dict[str, Any]]:
    """Partitions are read side by side, so the order of examples is no promise."""
    code, found = answer
    return code, found | {"examples": sorted(found["examples"], key=lambda each: str(each["decision"]))}


@pytest.fixture(name="place")
def _place(tmp_path: Path) -> Place:
    return Place(tmp_path, History().day(12))


@pytest.mark.parametrize("archived", [False, True])
def test_what_is_explained_without_the_log_is_what_the_log_says(place: Place, archived: bool) -> None:
    wanted = [(), *((each.decision,) for each in place.decisions[::3]), (place.decisions[1].ask.request,)]
    before = [told(place, "explain", *each) for each in wanted]
    lines = place.tell("explain", place.decisions[2].decision)[1]
    assert {found["told_by"] for _, found in before} == {"log"}
    if archived:
        place.archive()
    place.lose_log()
    source = "archive" if archived else "read model"
    for each, (code, found) in zip(wanted, before, strict=True):
        assert told(place, "explain", *each) == (code, found | {"told_by": source})
    code, out, said = place.tell("explain", place.decisions[2].decision)
    assert (code, out) == (0, lines)
    assert "the log does not answer" in said
    assert "127.0.0.1:1" in said
    assert ("the archive ends at 20" if archived else "nothing is archived") in said
    assert place.tell("explain", "nobody")[0] == 2


def test_all_that_is_archived_is_replayed_and_the_rest_is_counted(place: Place) -> None:
    code, before = told(place, "replay", "verify")
    assert before["decisions"] == len(place.decisions)
    place.archive()
    place.lose_log()
    assert sorted_examples(told(place, "replay", "verify")) == sorted_examples((code, before))


def test_decisions_that_only_the_read_model_knows_keep_a_replay_from_being_clean(place: Place) -> None:
    place.lose_log()
    for arguments, count in (
        ((), len(place.decisions)),
        (("--tenant", "acme"), sum(each.ask.tenant == "acme" for each in place.decisions)),
        (("--since", "2100-01-01"), 0),
    ):
        code, found = told(place, "replay", "verify", *arguments)
        assert (code, found["decisions"], found["beyond_reach"]) == (1, 0, count)
    assert re.search(rf"beyond reach\W+{len(place.decisions)}\b", place.tell("replay", "verify")[1])


def test_with_neither_log_nor_read_model_nothing_is_claimed(place: Place) -> None:
    place.machine.projections_path.unlink()
    place.lose_log()
    code, _, said = place.tell("explain")
    assert code == 2
    assert "no decision is in what can be read without the log" in said
    code, found = told(place, "replay", "verify")
    assert (code, found["beyond_reach"]) == (1, None)
    assert re.search(r"beyond reach\W+unknown", place.tell("replay", "verify")[1])


@pytest.mark.parametrize("name", ["spend", "failures", "sessions", "drift"])
def test_reports_and_sql_need_no_log(place: Place, name: str) -> None:
    asked = (("report", name), ("sql", "SELECT count(*) FROM v_decisions"))
    before = [place.tell(*each)[:2] for each in asked]
    place.lose_log()
    assert [place.tell(*each)[:2] for each in asked] == before
