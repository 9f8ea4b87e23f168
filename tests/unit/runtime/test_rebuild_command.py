"""`tidegate rebuild` without a projector: what it says and what it leaves behind."""

import asyncio
import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from support.history import History
from support.read_model import asked
from tidegate.events.log.port import Outgoing
from tidegate.events.partition import PARTITIONS
from tidegate.events.topics import REQUESTS
from tidegate.projections.rebuild import NAMED_DEAD_LETTERS
from tidegate.runtime.cli import app
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import load_settings

pytestmark = pytest.mark.slow  # each opens databases
FUTURE = b'{"id":"x","type":"FromTheFuture","v":1,"ts":1,"source":"gw","seq":1,"data":{}}'
ROLES = ("relay", "estimator", "control")


@pytest.fixture(name="machine")
def _machine(tmp_path: Path) -> Machine:
    config = tmp_path / "tidegate.toml"
    config.write_text('data_dir = "data"\n')
    machine = Machine(load_settings(config), base=tmp_path, env={})
    machine.make_folders()
    machine.projections_path.parent.mkdir(parents=True, exist_ok=True)
    return machine


def write(machine: Machine, records: list[Outgoing]) -> None:
    async def append() -> None:
        log = machine.open_log(ROLES)
        for record in records:
            await log.append([record])
        await log.close()

    asyncio.run(append())


def rebuild(tmp_path: Path, *flags: str) -> tuple[int, str]:
    done = CliRunner().invoke(app, ["rebuild", "-c", str(tmp_path / "tidegate.toml"), *flags])
    assert done.exception is None or isinstance(done.exception, SystemExit), done.exception
    return done.exit_code, done.stdout


def test_a_half_rebuild_is_told_and_not_taken_and_by_force_the_old_file_stays_beside_it(
    machine: Machine, tmp_path: Path
) -> None:
    counted = "SELECT count(*) FROM v_requests"
    records = History().day(12).outgoing()
    write(machine, records)
    code, said = rebuild(tmp_path, "--json")
    swap = json.loads(said)["swap"]
    assert (code, swap["swapped"], swap["unread"], swap["kept"]) == (0, True, [], None)
    assert json.loads(said)["built"]["dead_letters"]["count"] == 0
    # An event that this build does not know, and behind it one of each partition that it can not reach.
    unknown = [Outgoing(REQUESTS.name, at, b"x", FUTURE) for at in range(PARTITIONS)]
    write(machine, [*unknown, *History(seed=2).day(3).outgoing()])

    code, said = rebuild(tmp_path)
    assert code == 1
    assert said.count("not in the new file: stopped in tidegate.requests.v1/") == PARTITIONS
    assert "the live file stays: the new one does not hold the whole log" in said
    assert "in place" not in said
    assert asked(machine.projections_path, counted) == [(12,)]

    code, said = rebuild(tmp_path, "--force")
    old = machine.projections_path.with_name(machine.projections_path.name + ".old")
    assert (code, "in place by force" in said, f"kept: {old}" in said) == (1, True, True)
    assert asked(old, counted) == [(12,)]


def test_records_that_nobody_can_read_are_counted_and_the_first_named(
    machine: Machine, tmp_path: Path
) -> None:
    write(machine, History().day(3).outgoing())
    write(machine, [Outgoing(REQUESTS.name, 1, b"x", b"junk") for _ in range(NAMED_DEAD_LETTERS + 2)])
    code, said = rebuild(tmp_path)
    assert code == 0
    assert (
        "left out as unreadable: 7 records; the projector tells of each it meets in the topic tidegate.deadletter.v1"
        in said
    )
    assert said.count("tidegate.requests.v1/1, offset ") == NAMED_DEAD_LETTERS
    assert "and 2 more" in said
    code, said = rebuild(tmp_path, "--json")
    dead = json.loads(said)["built"]["dead_letters"]
    assert (code, dead["count"], dead["topic"]) == (0, 7, "tidegate.deadletter.v1")
    assert dead["first"][0].keys() == {"topic", "partition", "offset", "reason"}
