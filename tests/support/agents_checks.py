"""What must hold of an agent that has done its task, whatever stood between it and the provider."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from support.agents_commands import NOTE
from support.agents_runs import Run


def check_task(name: str, ran: Run, folder: Path) -> None:
    """It ended well, cut off from every network; the tools did their work and their result was told."""
    outcome = ran.outcome
    assert (outcome.code, outcome.timed_out, outcome.interfaces) == (0, False, ["lo"]), outcome
    assert set(outcome.server_codes) == {0}
    assert (folder / "work" / "note.txt").read_text().rstrip("\n") == NOTE
    last = said(name, outcome.out)
    assert last.startswith("It says: ")
    assert NOTE in last


def said(name: str, out: str) -> str:
    """The agent's last words."""
    if name == "claude-code":
        return str(json.loads(out)["result"])
    if name == "codex":
        items = [event["item"] for event in events(out) if event["type"] == "item.completed"]
        return str(items[-1]["text"])
    return out


def events(out: str) -> list[dict[str, Any]]:
    """The JSON lines that an agent printed."""
    return [json.loads(line) for line in out.splitlines()]
