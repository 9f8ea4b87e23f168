"""How each agent is pointed at a base URL and given a task, and the script by which a simulated model does it."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

from support.agents_install import CLAUDE_CODE, CODEX, PI, Package, program
from support.agents_isolation import Command

NOTE = "tide né 月 🌊 \"quoted\" and 'single' \\ slash"
TASK = "Create note.txt with a line about the tide, read it again, and tell me what it says."
THOUGHT = "A file first, then I read it. Né, 月."
KEY_VARIABLE = "TIDEGATE_API_KEY"


class Target(NamedTuple):
    """What an agent talks to: scheme, host and port (no path), a client key, and a model or route."""

    base_url: str
    key: str
    route: str


class Agent(NamedTuple):
    """An agent in one dialect. `command` takes program, target and an empty folder of its own."""

    package: Package
    path: str
    command: Callable[[list[str], Target, Path], Command]
    script: list[dict[str, Any]]

    def prepared(self, target: Target, folder: Path) -> Command:
        """The call, with the agent installed and its folders made. Raises NotInstallable."""
        return self.command(program(self.package), target, folder)


def _command(folder: Path, words: list[str], **env: str) -> Command:
    for name in ("home", "work"):
        (folder / name).mkdir(exist_ok=True)
    shared = {"PATH": os.environ["PATH"], "HOME": str(folder / "home"), "LANG": "C.UTF-8"}
    return Command(words, {**shared, **env}, folder / "work")


def _claude_code(words: list[str], target: Target, folder: Path) -> Command:
    more = ["--output-format", "json", "--permission-mode", "acceptEdits"]
    return _command(
        folder,
        [*words, "-p", TASK, "--model", target.route, *more, "--allowedTools", "Bash,Read,Edit,Write"],
        ANTHROPIC_BASE_URL=target.base_url,
        ANTHROPIC_API_KEY=target.key,
        CLAUDE_CODE_DISABLE_NONESSENTIAL_TRAFFIC="1",
    )


def _codex(words: list[str], target: Target, folder: Path) -> Command:
    (folder / "codex").mkdir(exist_ok=True)
    provider = (
        f'model_providers.tidegate={{name="Tidegate",base_url="{target.base_url}/v1",'
        f'env_key="{KEY_VARIABLE}",wire_api="responses"}}'
    )
    # The namespace is the sandbox: the agent's own needs kernel features that test machines lack.
    more = ["--skip-git-repo-check", "--json", "--sandbox", "danger-full-access", "-m", target.route]
    return _command(
        folder,
        [*words, "exec", *more, "-c", "model_provider=tidegate", "-c", provider, TASK],
        CODEX_HOME=str(folder / "codex"),
        **{KEY_VARIABLE: target.key},
    )


def _pi(api: str, suffix: str) -> Callable[[list[str], Target, Path], Command]:
    def command(words: list[str], target: Target, folder: Path) -> Command:
        settings = folder / "pi"
        settings.mkdir(exist_ok=True)
        provider = {
            "baseUrl": target.base_url + suffix,
            "api": api,
            "apiKey": KEY_VARIABLE,
            "models": [{"id": target.route, "reasoning": True}],
        }
        (settings / "models.json").write_text(json.dumps({"providers": {"tidegate": provider}}))
        more = ["--provider", "tidegate", "--model", target.route, "--thinking", "high"]
        return _command(
            folder,
            [*words, "-p", "--no-session", *more, TASK],
            PI_OFFLINE="1",
            PI_CODING_AGENT_DIR=str(settings),
            **{KEY_VARIABLE: target.key},
        )

    return command


def _script(write: dict[str, Any], read: dict[str, Any], check: dict[str, Any]) -> list[dict[str, Any]]:
    """Three turns: think and write; read and check at the same time; tell what the check said."""
    return [
        {"parts": [{"kind": "reasoning", "text": THOUGHT}, {"text": "I create the note."}, write]},
        {"parts": [read, check]},
        {"parts": [{"text": "It says: {result}"}]},
    ]


def _call(name: str, **arguments: Any) -> dict[str, Any]:
    return {"kind": "tool", "name": name, "arguments": arguments}


_PI_SCRIPT = _script(
    _call("write", path="note.txt", content=NOTE),
    _call("read", path="note.txt"),
    _call("bash", command="cat note.txt"),
)
_WRITTEN = "cat > note.txt <<'NOTE'\n" + NOTE + "\nNOTE"

AGENTS = {
    "claude-code": Agent(
        CLAUDE_CODE,
        "/v1/messages",
        _claude_code,
        _script(
            _call("Write", file_path="note.txt", content=NOTE),
            _call("Read", file_path="note.txt"),
            _call("Bash", command="cat note.txt", description="Show the note"),
        ),
    ),
    "codex": Agent(
        CODEX,
        "/v1/responses",
        _codex,
        _script(
            _call("exec_command", cmd=_WRITTEN),
            _call("exec_command", cmd="wc -c note.txt"),
            _call("exec_command", cmd="cat note.txt"),
        ),
    ),
    "pi-completions": Agent(PI, "/v1/chat/completions", _pi("openai-completions", "/v1"), _PI_SCRIPT),
    "pi-responses": Agent(PI, "/v1/responses", _pi("openai-responses", "/v1"), _PI_SCRIPT),
    "pi-messages": Agent(PI, "/v1/messages", _pi("anthropic-messages", ""), _PI_SCRIPT),
}
