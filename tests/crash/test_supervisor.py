"""`tidegate serve`: a role that dies is started again, an end at the terminal is in order, and no role outlives
its supervisor."""

from __future__ import annotations

import asyncio
import errno
import json
import os
import signal
import socket
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.audit import check_nothing_is_lost, check_settlements, read_book
from support.fleet import ROLES, Fleet, Process, until
from support.rig import UPSTREAM_KEY
from support.traffic import Asked, Traffic

pytestmark = [pytest.mark.crash, pytest.mark.slow]
SLOW: dict[str, Any] = {"latency": {"ttft_ms": 5, "tokens_per_s": 20}, "faults": []}


class Served(Fleet):
    """A fleet whose roles are started by `tidegate serve`."""

    serve: Process

    async def up(self) -> None:
        """Start it and wait until it serves."""
        self.serve = self.add("serve", "tidegate.runtime", "serve", "--config", self.config, own_group=True)
        self.serve.start()
        state = self.machine.run_dir / "serve.json"

        def listens() -> bool:  # a killed one left its own
            assert self.serve.is_running, self.serve.failure("ended")
            return state.exists() and json.loads(state.read_text())["pid"] == self.serve.pid

        await until(listens, lambda: self.serve.failure("to listen"))
        self.port = json.loads(state.read_text())["tenant_port"]
        await until(self._ready, lambda: self.serve.failure("to be ready"))

    async def _ready(self) -> bool:
        try:
            async with httpx.AsyncClient(trust_env=False, timeout=2) as client:
                answer = await client.get(f"http://127.0.0.1:{self.port}/readyz")
        except httpx.HTTPError:
            return False
        return answer.status_code == 200 and len(self.pids()) == len(ROLES)

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.port}"

    def pids(self) -> dict[str, int]:
        """The process of each role, by what the kernel says of the supervisor's children."""
        pid = self.serve.pid
        found = {}
        for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split():
            try:
                command = Path(f"/proc/{child}/cmdline").read_bytes().split(b"\0")
            except OSError:  # it ended a moment ago
                continue
            role = command[3].decode() if command[1:3] == [b"-m", b"tidegate.runtime"] else ""
            if role in ROLES:  # one that was just forked still has its parent's command
                found[role] = int(child)
        return found

    async def gone(self, pids: Mapping[str, int]) -> None:
        """Until none of these processes is there."""
        await until(
            lambda: not any(Path(f"/proc/{pid}").exists() for pid in pids.values()),
            lambda: f"roles to end: {[role for role, pid in pids.items() if Path(f'/proc/{pid}').exists()]}",
        )


async def test_a_second_serve_on_the_same_folder_is_refused_and_the_first_is_not_touched(
    tmp_path: Path,
) -> None:
    async with Served(tmp_path) as fleet:
        await fleet.up()
        state = fleet.machine.run_dir / "serve.json"
        before, pids = state.read_bytes(), fleet.pids()
        second = await asyncio.create_subprocess_exec(
            sys.executable,
            "-m",
            "tidegate.runtime",
            "serve",
            "--config",
            fleet.config,
            stdout=asyncio.subprocess.PIPE,
            stderr=asyncio.subprocess.PIPE,
            env={**os.environ, "SIM_KEY": UPSTREAM_KEY},
        )
        out, err = await second.communicate()
        assert (second.returncode, out) == (2, b"")
        assert f"runs on {fleet.machine.data_dir}" in err.decode()
        assert (state.read_bytes(), fleet.pids()) == (before, pids)
        fleet.serve.signal(signal.SIGTERM)
        assert await fleet.serve.ended() == 0
        assert not state.exists()


async def test_each_role_that_is_killed_is_started_again_and_requests_go_on(tmp_path: Path) -> None:
    async with Served(tmp_path) as fleet:
        await fleet.up()
        async with Traffic(fleet.url) as traffic:
            for role, pid in fleet.pids().items():
                await traffic.more(2, f"before {role} is killed")
                os.kill(pid, signal.SIGKILL)
                await until(lambda role=role, pid=pid: fleet.pids().get(role, pid) != pid, f"another {role}")  # type: ignore[misc]
            await traffic.more(5, "after the last kill")
            await until(lambda: len(fleet.pids()) == len(ROLES), lambda: f"every role; {fleet.pids()}")
        await ended_well(fleet, traffic.asked)


async def ended_well(fleet: Served, asked: list[Asked]) -> None:
    """TERM ends it in order, and everything is in the log."""
    pids = fleet.pids()
    fleet.serve.signal(signal.SIGTERM)
    assert await fleet.serve.ended() == 0, fleet.serve.failure("did not end well")
    await fleet.gone(pids)
    await check_log(fleet, asked)


async def check_log(fleet: Served, asked: list[Asked]) -> None:
    assert fleet.unsent() == {}
    log = fleet.machine.open_log()
    book = await read_book(log)
    await log.close()
    check_nothing_is_lost(book, {}, fleet.machine.data_dir)
    check_settlements(book, asked)


async def test_ctrl_c_lets_streams_end_and_then_ends_all_roles_in_order(tmp_path: Path) -> None:
    async with Served(tmp_path, providers=SLOW) as fleet:
        await fleet.up()
        pids = fleet.pids()
        traffic = Traffic(fleet.url, clients=0, output_tokens=30)
        asking = [
            asyncio.ensure_future(traffic.ask(Asked(f"c-{n}", "chat", streamed=True))) for n in range(5)
        ]
        await until(lambda: sum(asked.content for asked in traffic.asked) == 5, "five open streams")
        os.killpg(fleet.serve.pid, signal.SIGINT)  # as a terminal does: to every process of the group
        assert {asked.fate for asked in await asyncio.gather(*asking)} == {"finished"}
        assert await fleet.serve.ended() == 0, fleet.serve.failure("did not end well")
        await fleet.gone(pids)
        await check_log(fleet, traffic.asked)


def holders(port: int, pids: Mapping[str, int]) -> set[str]:
    """Who of these processes has the socket that listens on a port."""
    listening = "0A"
    rows = [line.split() for line in Path("/proc/net/tcp").read_text().splitlines()[1:]]
    (inode,) = (row[9] for row in rows if row[1].endswith(f":{port:04X}") and row[3] == listening)
    found = set()
    for role, pid in pids.items():
        open_files = {
            str(entry.readlink()) for entry in Path(f"/proc/{pid}/fd").iterdir() if entry.is_symlink()
        }
        if f"socket:[{inode}]" in open_files:
            found.add(role)
    return found


def is_refused(port: int) -> bool:
    """Whether a connection is refused at once, as a load balancer sees it."""
    with socket.socket() as client:
        client.settimeout(5)
        return client.connect_ex(("127.0.0.1", port)) == errno.ECONNREFUSED


async def test_only_who_serves_a_port_holds_it_and_while_streams_drain_connections_are_refused(
    tmp_path: Path,
) -> None:
    async with Served(tmp_path, providers=SLOW, gateway={"drain_grace_s": 60.0}) as fleet:
        await fleet.up()
        ports = json.loads((fleet.machine.run_dir / "serve.json").read_text())
        pids = {**fleet.pids(), "supervisor": fleet.serve.pid}
        assert holders(ports["tenant_port"], pids) == {"gateway", "supervisor"}
        assert holders(ports["admin_port"], pids) == {"admin", "supervisor"}
        async with Traffic(fleet.url, clients=0, output_tokens=60) as traffic:
            streams = await traffic.begin_streams(2, "open", ("chat", "messages"))
            fleet.serve.signal(signal.SIGTERM)
            await until(lambda: is_refused(fleet.port), "the port to be closed")
            assert len(traffic.open) == 2, "it is closed while streams go on"
            assert {asked.fate for asked in await asyncio.gather(*streams)} == {"finished"}
        assert await fleet.serve.ended() == 0, fleet.serve.failure("did not end well")
        await check_log(fleet, traffic.asked)


async def test_no_role_outlives_a_killed_supervisor_and_the_next_one_serves_though_streams_were_open(
    tmp_path: Path,
) -> None:
    patient = {"drain_delay_s": 300.0, "drain_grace_s": 300.0}
    async with Served(tmp_path, providers=SLOW, gateway=patient) as fleet:
        await fleet.up()
        text = fleet.config.read_text().replace("port = 0", f"port = {fleet.port}", 1)
        fleet.config.write_text(text.replace("drain_delay_s = 300", "drain_delay_s = 0"))
        pids = fleet.pids()
        async with Traffic(fleet.url, clients=0, output_tokens=5_000) as traffic:
            streams = await traffic.begin_streams(2, "open", ("chat", "messages"))
            fleet.serve.kill()
            await fleet.up()
            ended = await asyncio.gather(*streams)
            assert {(asked.fate, asked.told) for asked in ended} == {("failed", "in band draining")}
        await fleet.gone(pids)
        async with Traffic(fleet.url) as later:
            await later.more(5, "of the next supervisor")
        await ended_well(fleet, traffic.asked + later.asked)
