"""What cannot be run is refused by `config check`, by `serve`, by each role and by admin, each time with its line."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import sys
from collections.abc import AsyncIterator, Mapping
from pathlib import Path

import httpx
import pytest
import pytest_asyncio

from support.fleet import Process, until
from support.one_target import CONFIG, ROLES
from support.served import Served, serving
from tidegate.runtime.machine import Machine
from tidegate.runtime.settings import load_settings

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]


async def tidegate(
    folder: Path, *arguments: str, env: Mapping[str, str] | None = None
) -> tuple[int, str, str]:
    """One command to its end; fails when it does not end by itself."""
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        "-m",
        "tidegate.runtime",
        *arguments,
        cwd=folder,
        stdin=asyncio.subprocess.DEVNULL,
        stdout=asyncio.subprocess.PIPE,
        stderr=asyncio.subprocess.PIPE,
        env={**os.environ, "TIDEGATE_CONFIG": str(folder / "tidegate.toml"), **(env or {})},
    )
    try:
        async with asyncio.timeout(60):
            out, err = await process.communicate()
    finally:
        if process.returncode is None:
            process.kill()
            await process.wait()
    return process.returncode or 0, out.decode(), err.decode()


@pytest.mark.parametrize("role", ROLES)
async def test_no_role_starts_on_a_bad_value(tmp_path: Path, role: str) -> None:
    (tmp_path / "tidegate.toml").write_text(
        CONFIG.replace("api.example.test", "user:hunter2pw@api.example.test")
    )
    code, out, err = await tidegate(tmp_path, role, env={"A_KEY": "long-enough"})
    assert (code, out) == (2, "")
    assert "tidegate.toml:16: targets[0].base_url: " in err
    assert "Traceback" not in err
    assert "hunter2pw" not in err
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("role", ["serve", "gateway"])
async def test_without_a_secret_nothing_listens(tmp_path: Path, role: str) -> None:
    (tmp_path / "tidegate.toml").write_text(CONFIG)
    code, out, err = await tidegate(tmp_path, role, env={"A_KEY": ""})
    assert (code, out) == (2, "")
    assert err.splitlines() == [
        f"{tmp_path}/tidegate.toml:18: targets[0].secret: not usable: environment variable A_KEY is not set or empty"
    ]


async def test_check_asks_for_secrets_unless_told_not_to(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text(CONFIG)
    code, out, _ = await tidegate(tmp_path, "config", "check", "--json", env={"A_KEY": ""})
    assert code == 1
    assert "tidegate.toml:18: targets[0].secret" in json.loads(out)["mistakes"][0]
    code, out, _ = await tidegate(tmp_path, "config", "check", "--json", "--no-secrets", env={"A_KEY": ""})
    assert code == 0
    assert json.loads(out)["ok"] is True
    assert not (tmp_path / "data").exists()


@pytest.mark.parametrize("slot", ["../x", "a/b", "", "x" * 65])
async def test_a_slot_that_is_no_folder_name_is_refused(tmp_path: Path, slot: str) -> None:
    (tmp_path / "tidegate.toml").write_text(CONFIG)
    code, _, err = await tidegate(tmp_path, "gateway", "--slot", slot, env={"A_KEY": "long-enough"})
    assert code == 2
    assert "--slot" in err


async def test_a_second_gateway_on_a_slot_says_so_in_a_line(served: Served) -> None:
    ran = await served.run("gateway", "--slot", "gw-0")
    assert ran.code == 2
    assert "Traceback" not in ran.err
    assert "gw-0" in ran.err.splitlines()[-1]


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serving() as found:
        yield found


async def test_a_changed_identity_is_refused_by_check_by_admin_and_at_start(served: Served) -> None:
    text = served.config.read_text()
    digest = (await served.admin("GET", "/admin/status")).json()["config"]
    try:
        served.config.write_text(text.replace('model = "m"', 'model = "n"', 1))
        ran = await served.run("config", "check")
        assert ran.code == 1
        assert "was published with another model: give the target a new id" in ran.err
        answer = await served.admin("POST", "/admin/config")
        assert answer.status_code == 422
        (mistake,) = answer.json()["detail"]
        assert "tidegate.toml:" in mistake
        assert "targets[0].model" in mistake
        for role in ("serve", "gateway", "admin"):
            refused = await served.run(role)
            assert (refused.code, refused.out) == (2, ""), refused
            assert "another model" in refused.err
        assert (await served.admin("GET", "/admin/status")).json()["config"] == digest
    finally:
        served.config.write_text(text)
    assert (await served.admin("POST", "/admin/config")).json() == {"published": False, "digest": digest}


@pytest.mark.parametrize(
    ("old", "new", "says"),
    [
        ("http://127.0.0.1", "http://user:hunter2pw@127.0.0.1", "user information"),
        ('secret = "env:SIM_KEY"', 'secret = "env:NOT_THERE"', "NOT_THERE is not set"),
        (
            "allow_private = true",
            'allow_private = true\nca_file = "/not/there.pem"',
            "/not/there.pem cannot be used",
        ),
        (
            "allow_private = true",
            'allow_private = true\nproxy = "http://u:hunter2pw@p:1"',
            "use proxy_secret",
        ),
        ('id = "acme"', 'id = "ac me"', "tenants[0].id"),
    ],
)
async def test_admin_publishes_nothing_that_cannot_be_run(
    served: Served, old: str, new: str, says: str
) -> None:
    text = served.config.read_text()
    before = (await served.admin("GET", "/admin/status")).json()["config"]
    try:
        assert old in text
        served.config.write_text(text.replace(old, new, 1))
        answer = await served.admin("POST", "/admin/config")
    finally:
        served.config.write_text(text)
    assert answer.status_code == 422
    assert says in answer.text
    assert "hunter2pw" not in answer.text
    assert (await served.admin("GET", "/admin/status")).json()["config"] == before
    log = b"".join(path.read_bytes() for path in served.machine.log_dir.iterdir())
    assert b"hunter2pw" not in log


async def test_serve_ends_when_who_started_it_is_gone(tmp_path: Path) -> None:
    (tmp_path / "tidegate.toml").write_text(CONFIG)
    machine = Machine(load_settings(tmp_path / "tidegate.toml"), base=tmp_path)
    read_fd, write_fd = os.pipe()
    process = Process(
        "serve",
        [
            sys.executable,
            "-m",
            "tidegate.runtime",
            "serve",
            "-c",
            tmp_path / "tidegate.toml",
            "--parent-fd",
            str(read_fd),
        ],
        {**os.environ, "A_KEY": "long-enough"},
        tmp_path,
        read_fd,
    )
    process.start()
    os.close(read_fd)
    try:
        await until((machine.run_dir / "gw-0.metrics").exists, lambda: process.failure("to start"))
        os.close(write_fd)
        assert await process.ended() == 0, process.failure("did not end well")
        assert not (machine.run_dir / "gw-0.metrics").exists()
    finally:
        process.end()


async def test_the_log_role_shows_the_numbers_of_its_machine(tmp_path: Path) -> None:
    port = free_port()
    (tmp_path / "tidegate.toml").write_text(CONFIG + f'[metrics]\nport = {port}\ntoken = "env:SCRAPER"\n')
    env = {**os.environ, "SCRAPER": "let-me-scrape"}
    process = Process(
        "log",
        [sys.executable, "-m", "tidegate.runtime", "log", "-c", tmp_path / "tidegate.toml"],
        env,
        tmp_path,
    )
    process.start()
    try:

        async def shown() -> bool:
            assert process.is_running, process.failure("ended")
            try:
                async with httpx.AsyncClient(trust_env=False, timeout=5) as client:
                    headers = {"authorization": "Bearer let-me-scrape"}
                    answer = await client.get(f"http://127.0.0.1:{port}/metrics", headers=headers)
                    refused = await client.get(f"http://127.0.0.1:{port}/metrics")
            except httpx.HTTPError:
                return False
            return 'instance="log"' in answer.text and refused.status_code == 401

        await until(shown, lambda: process.failure("to show its numbers"))
        process.signal(signal.SIGTERM)
        assert await process.ended() == 0
    finally:
        process.end()


def free_port() -> int:
    from tidegate.runtime.sockets import bound

    with bound("127.0.0.1", 0) as listening:
        return int(listening.getsockname()[1])
