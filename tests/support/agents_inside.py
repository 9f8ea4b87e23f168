"""Runs inside a network namespace that has only loopback: servers first, then the agent, then their pages.

`python agents_inside.py PLAN RESULT`, both JSON files; see agents_isolation.py, which writes and reads them.
"""

from __future__ import annotations

import fcntl
import json
import os
import signal
import socket
import struct
import subprocess
import sys
import time
import urllib.error
import urllib.request
from pathlib import Path
from typing import Any

READY_WITHIN_S = 60.0
STOP_WITHIN_S = 30.0
_GET_FLAGS, _SET_FLAGS, _UP = 0x8913, 0x8914, 0x1


def raise_loopback() -> None:
    """Bring the loopback interface up, as `ip link set lo up` does."""
    with socket.socket(socket.AF_INET, socket.SOCK_DGRAM) as sock:
        name = b"lo".ljust(16, b"\0")
        found = fcntl.ioctl(sock, _GET_FLAGS, struct.pack("16sh22x", name, 0))
        (flags,) = struct.unpack_from("h", found, 16)
        fcntl.ioctl(sock, _SET_FLAGS, struct.pack("16sh22x", name, flags | _UP))


def interfaces() -> list[str]:
    """The names of this namespace's network interfaces."""
    return sorted(name for _, name in socket.if_nameindex())


def page(url: str, headers: dict[str, str]) -> Any:
    """The JSON at a URL. Raises OSError while nobody answers."""
    request = urllib.request.Request(url, headers=headers)
    with urllib.request.urlopen(request, timeout=10) as answer:
        return json.loads(answer.read() or b"null")


def start(server: dict[str, Any], folder: Path) -> subprocess.Popen[bytes]:
    """Start a server and wait until its page answers. Raises RuntimeError with its output when it does not."""
    log = folder / f"{server['name']}.log"
    with log.open("wb") as out:
        process = subprocess.Popen(
            server["command"], env=server["env"], cwd=folder, stdout=out, stderr=subprocess.STDOUT
        )
    ends = time.monotonic() + READY_WITHIN_S
    while time.monotonic() < ends and process.poll() is None:
        try:
            page(server["ready_url"], {})
        except (OSError, ValueError):
            time.sleep(0.05)
        else:
            return process
    process.kill()
    raise RuntimeError(f"{server['name']} did not get ready: {log.read_text()[-2000:]}")


def stop(process: subprocess.Popen[bytes]) -> int:
    """End a server; its exit code."""
    process.send_signal(signal.SIGTERM)
    try:
        return process.wait(STOP_WITHIN_S)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def run_agent(agent: dict[str, Any]) -> dict[str, Any]:
    """The agent to its end, or until its time is over: then its whole process group is ended."""
    process = subprocess.Popen(
        agent["command"],
        env=agent["env"],
        cwd=agent["cwd"],
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        start_new_session=True,
    )
    timed_out = False
    try:
        out, err = process.communicate(timeout=agent["timeout_s"])
    except subprocess.TimeoutExpired:
        timed_out = True
        os.killpg(process.pid, signal.SIGKILL)
        out, err = process.communicate()
    return {
        "code": process.returncode,
        "timed_out": timed_out,
        "out": out.decode(errors="replace"),
        "err": err.decode(errors="replace"),
    }


def main(plan_path: Path, result_path: Path) -> None:
    """Carry the plan out; the result holds how the agent ended, the pages, and the interfaces there were."""
    plan = json.loads(plan_path.read_text())
    raise_loopback()
    running: list[subprocess.Popen[bytes]] = []
    try:
        for server in plan["servers"]:
            running.append(start(server, plan_path.parent))
        result = run_agent(plan["agent"])
        result["pages"] = {url: page(url, plan["page_headers"]) for url in plan["pages"]}
    finally:
        codes = [stop(process) for process in reversed(running)]
    result |= {"interfaces": interfaces(), "server_codes": codes[::-1]}
    result_path.write_text(json.dumps(result))


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]))
