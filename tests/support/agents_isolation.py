"""Runs an agent and the servers it talks to in a network namespace that has only loopback.

The namespace is fresh, so every port is free in it: addresses can be fixed before anything starts.
"""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from collections.abc import Mapping, Sequence
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

INSIDE = Path(__file__).with_name("agents_inside.py")
GRACE_S = 180.0
"""For the servers to start and to end, beside the agent's own time."""


class Server(NamedTuple):
    """A process that must answer 200 at `ready_url` before the agent starts."""

    name: str
    command: Sequence[str]
    env: Mapping[str, str]
    ready_url: str


class Command(NamedTuple):
    """How an agent is called: its words, all of its environment, and the folder it works in."""

    words: Sequence[str]
    env: Mapping[str, str]
    cwd: Path


class Outcome(NamedTuple):
    """How the agent ended; `pages` are the JSON documents that the servers answered afterwards, by URL."""

    code: int
    timed_out: bool
    out: str
    err: str
    pages: dict[str, Any]
    interfaces: list[str]
    server_codes: list[int]


@cache
def why_impossible() -> str | None:
    """Why no namespace can be had here, or None."""
    if shutil.which("unshare") is None:
        return "there is no unshare command for a network namespace"
    tried = subprocess.run([*_unshare(), "true"], capture_output=True, check=False, text=True)
    return None if tried.returncode == 0 else f"no network namespace can be made: {tried.stderr.strip()}"


def run_isolated(
    servers: Sequence[Server],
    agent: Command,
    *,
    folder: Path,
    timeout_s: float,
    pages: Sequence[str] = (),
    page_headers: Mapping[str, str] | None = None,
) -> Outcome:
    """Start the servers in order, run the agent, fetch the pages, end the servers the other way round.

    Logs of the servers are left in `folder`. Raises RuntimeError when a server does not get ready.
    """
    plan, result = folder / "plan.json", folder / "result.json"
    agent_plan = {
        "command": [*agent.words],
        "env": {**agent.env},
        "cwd": str(agent.cwd),
        "timeout_s": timeout_s,
    }
    plan.write_text(
        json.dumps(
            {
                "servers": [{**server._asdict(), "env": dict(server.env)} for server in servers],
                "agent": agent_plan,
                "pages": [*pages],
                "page_headers": dict(page_headers or {}),
            }
        )
    )
    done = subprocess.run(
        [*_unshare(), sys.executable, str(INSIDE), str(plan), str(result)],
        capture_output=True,
        check=False,
        text=True,
        timeout=timeout_s + GRACE_S,
    )
    if done.returncode != 0:
        raise RuntimeError(f"the run in the namespace failed: {done.stderr[-3000:]}")
    return Outcome(**json.loads(result.read_text()))


def _unshare() -> list[str]:
    """Root needs no user namespace, others get one in which they are root."""
    return ["unshare", "--net"] if os.geteuid() == 0 else ["unshare", "--map-root-user", "--net"]
