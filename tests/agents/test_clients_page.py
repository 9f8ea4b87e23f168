"""Every snippet of the clients' page that is not Python runs as it stands, cut off from every network.

The namespace has what the page says and no more: a gateway at its address, its two variables, its two routes.
"""

from __future__ import annotations

import os
import re
import shlex
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

import pytest

from support.agents_gateway import GATEWAY_URL, UPSTREAMS, check_ledger, gateway
from support.agents_install import (
    ANTHROPIC,
    CLAUDE_CODE,
    CODEX,
    OPENAI,
    PI,
    NotInstallable,
    installed,
    node,
    program,
)
from support.agents_isolation import Command, run_isolated, why_impossible
from support.agents_runs import INVOICE, MODEL, PRICES, simulator
from support.rig import KEY

pytestmark = [pytest.mark.nightly, pytest.mark.slow]
PAGE = Path(__file__).parents[2] / "docs" / "reference" / "clients.md"
AGENTS = {"claude": CLAUDE_CODE, "codex": CODEX, "pi": PI}
SDKS = {"openai": OPENAI, "@anthropic-ai/sdk": ANTHROPIC}
SETTINGS = {"toml": ".codex/config.toml", "json": ".pi/agent/models.json"}
"""Where in the home the page says that settings in this language belong."""
SAID = "The moon pulls twice."
_WITHIN_S = 600.0


class Snippet(NamedTuple):
    """What stands on the page. Settings are for the commands after them."""

    language: str
    text: str

    def script(self, place: Path, home: Path) -> str:
        """The snippet laid down where it belongs; the shell's words that run it."""
        if self.language in SETTINGS:
            file = home / SETTINGS[self.language]
            file.parent.mkdir(parents=True)
            file.write_text(self.text)
            return "true"
        place.mkdir()
        (place / f"snippet.{'mjs' if self.language == 'js' else 'sh'}").write_text(self.text)
        if self.language == "sh":
            return f"cd {shlex.quote(str(place))} && sh -e snippet.sh"
        (package,) = re.findall(r'from "(.+)"', self.text)
        # Modules are looked for beside the file that imports them.
        (place / "node_modules").symlink_to(installed(SDKS[package]) / "node_modules")
        return f"cd {shlex.quote(str(place))} && {shlex.quote(node())} snippet.mjs"


SNIPPETS = [
    Snippet(*found)
    for found in re.findall(r"^```(\w+)\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)
    if found[0] != "python"
]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Sockets have short names: a folder of pytest's would not fit."""
    with tempfile.TemporaryDirectory(prefix="tg", ignore_cleanup_errors=True) as name:
        yield Path(name)


def commands(folder: Path) -> Command:
    """All snippets one after the other, each with a file for what it says and one for its exit code."""
    home, work, programs = (folder / name for name in ("home", "work", "programs"))
    for made in (home, work, programs):
        made.mkdir()
    for name, package in AGENTS.items():
        (programs / name).write_text(f'#!/bin/sh\nexec {shlex.join(program(package))} "$@"\n')
        (programs / name).chmod(0o755)
    lines = [
        f"({snippet.script(work / str(number), home)}) >{number}.out 2>{number}.err; echo $? >{number}.code"
        for number, snippet in enumerate(SNIPPETS)
    ]
    env = {"HOME": str(home), "LANG": "C.UTF-8", "TIDEGATE_URL": GATEWAY_URL, "TIDEGATE_API_KEY": KEY}
    path = f"{programs}:{os.environ['PATH']}"
    return Command(["sh", "-c", "\n".join(lines)], {**env, "PATH": path}, work)


@pytest.mark.parametrize("upstream", UPSTREAMS)
def test_every_snippet_for_node_the_shell_and_agents_runs_as_it_stands(upstream: str, folder: Path) -> None:
    reason = why_impossible()
    if reason is not None:
        pytest.skip(reason)
    try:
        command = commands(folder)
    except NotInstallable as error:
        pytest.skip(str(error))
    script = [{"name": "says", "turns": [{"parts": [{"text": SAID}]}]}]
    servers = [
        simulator(folder, [{"name": MODEL, "script": "says", **PRICES}], scripts=script),
        gateway(folder, {"chat": upstream, "vectors": "openai-embeddings"}),
    ]
    outcome = run_isolated(servers, command, folder=folder, timeout_s=_WITHIN_S, pages=[INVOICE])
    assert (outcome.timed_out, outcome.interfaces) == (False, ["lo"])
    told = [(folder / "work" / f"{number}.out").read_text() for number in range(len(SNIPPETS))]
    errors = [(folder / "work" / f"{number}.err").read_text() for number in range(len(SNIPPETS))]
    codes = [(folder / "work" / f"{number}.code").read_text().strip() for number in range(len(SNIPPETS))]
    assert codes == ["0"] * len(SNIPPETS), list(zip(SNIPPETS, codes, told, errors, strict=True))
    spoken = [
        SAID in said for snippet, said in zip(SNIPPETS, told, strict=True) if snippet.language not in SETTINGS
    ]
    assert spoken == [True] * 7, told
    check_ledger(folder, outcome.pages[INVOICE])
