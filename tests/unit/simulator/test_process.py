"""The simulator as a process of its own: ready line, log on disk that survives a kill, exit codes."""

import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest

from unit.simulator.rig import chat

pytestmark = pytest.mark.slow

CONFIG = """
log_path = "{log}"
[[providers]]
id = "p"
[[providers.models]]
name = "m"
input_uncached = 3_000_000_000
output = 15_000_000_000
"""


@contextmanager
def running(folder: Path) -> Iterator[tuple["subprocess.Popen[str]", str]]:
    config = folder / "sim.toml"
    config.write_text(CONFIG.format(log=folder / "log.jsonl"))
    command = [sys.executable, "-m", "tidegate.simulator", "--config", str(config)]
    with subprocess.Popen(
        [*command, "--ready-file", str(folder / "ready")], stdout=subprocess.PIPE, text=True
    ) as process:
        try:
            assert process.stdout is not None
            ready = process.stdout.readline()
            assert (folder / "ready").read_text() == ready
            yield process, f"http://127.0.0.1:{json.loads(ready)['ports']['p']}"
        finally:
            process.kill()


def test_it_says_its_ports_and_ends_on_sigterm(tmp_path: Path) -> None:
    with running(tmp_path) as (process, base), httpx.Client(base_url=base, verify=False) as client:
        assert client.get("/_sim/healthz").json()["status"] == "ok"
        process.send_signal(signal.SIGTERM)
        assert process.wait(10) == 0


@pytest.mark.parametrize("stream", [True, False])
def test_what_a_client_has_read_is_in_the_log_file_after_a_kill(tmp_path: Path, stream: bool) -> None:
    with running(tmp_path) as (process, base), httpx.Client(base_url=base, verify=False) as client:
        for number in range(20):
            headers = {"x-tidegate-attempt-id": str(number)}
            answer = client.post("/v1/chat/completions", json=chat(stream=stream), headers=headers)
            assert answer.status_code == 200
        os.kill(process.pid, signal.SIGKILL)
        process.wait(10)
    lines = [json.loads(line) for line in (tmp_path / "log.jsonl").read_text().splitlines()]
    assert [line["attempt"] for line in lines] == [str(number) for number in range(20)]
    assert all(line["outcome"] == "completed" and line["cost_nanousd"] > 0 for line in lines)


def read_until_reset(sock: socket.socket) -> bytes:
    """Everything before a reset. Fails when the end is a FIN."""
    received = b""
    while True:
        try:
            data = sock.recv(65536)
        except ConnectionResetError:
            return received
        assert data, "the end was a FIN"
        received += data


def test_its_faster_loop_resets_and_notices_who_leaves_just_as_well(tmp_path: Path) -> None:
    body = json.dumps(chat(stream=True)).encode()
    head = f"POST /v1/chat/completions HTTP/1.1\r\nhost: sim\r\ncontent-length: {len(body)}\r\n"
    with running(tmp_path) as (_, base), httpx.Client(base_url=base, verify=False) as client:
        address = ("127.0.0.1", int(base.rpartition(":")[2]))
        with socket.create_connection(address, timeout=10) as sock:
            sock.sendall(f"{head}x-sim-fault: rst;byte=333\r\n\r\n".encode() + body)
            assert len(read_until_reset(sock)) == 333
        with socket.create_connection(address, timeout=10) as sock:
            sock.sendall(f"{head}x-sim-fault: first_token_stall\r\n\r\n".encode() + body)
            assert sock.recv(8) == b"HTTP/1.1"
        while (client.get("/_sim/state").json())["in_flight"]:
            pass
        outcomes = [line["outcome"] for line in client.get("/_sim/log").json()["records"]]
    assert outcomes == ["cut", "cancelled"]


def test_a_bad_configuration_ends_with_code_2_and_says_why(tmp_path: Path) -> None:
    config = tmp_path / "sim.toml"
    config.write_text("providers = []")
    command = [sys.executable, "-m", "tidegate.simulator", "--config", str(config)]
    ended = subprocess.run(command, capture_output=True, text=True, timeout=30, check=False)
    assert ended.returncode == 2
    assert "at least one" in ended.stderr
