"""Installs coding agents and SDKs from npm, scripts off, into a cache folder outside the tree."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from pathlib import Path
from typing import NamedTuple

CACHE_VARIABLE = "TIDEGATE_AGENTS_CACHE"
INSTALL_WITHIN_S = 900.0


class Package(NamedTuple):
    """An exact version from npm, and where in it the program is; `entry` may hold wildcards."""

    name: str
    version: str
    entry: str
    needs_node: bool


CLAUDE_CODE = Package(
    "@anthropic-ai/claude-code",
    "2.1.332",
    "node_modules/@anthropic-ai/claude-code-*/claude",
    needs_node=False,
)
CODEX = Package("@openai/codex", "0.171.0", "node_modules/@openai/codex/bin/codex.js", needs_node=True)
PI = Package(
    "@mariozechner/pi-coding-agent",
    "0.73.1",
    "node_modules/@mariozechner/pi-coding-agent/dist/cli.js",
    needs_node=True,
)


OPENAI = Package("openai", "7.59.0", "node_modules/openai/index.mjs", needs_node=True)
ANTHROPIC = Package(
    "@anthropic-ai/sdk", "1.14.0", "node_modules/@anthropic-ai/sdk/index.mjs", needs_node=True
)


class NotInstallable(Exception):
    """The package cannot be had here; the message says why."""


def program(package: Package) -> list[str]:
    """The words that start an agent, installed if it is not yet. Raises NotInstallable."""
    root = installed(package)
    found = str(min(root.glob(package.entry)))
    return [node(), found] if package.needs_node else [found]


def installed(package: Package) -> Path:
    """The folder whose `node_modules` holds the package, installed if it is not yet. Raises NotInstallable."""
    npm = shutil.which("npm")
    if npm is None:
        raise NotInstallable("npm is not installed")
    root = _cache() / f"{package.name.replace('/', '+')}-{package.version}"
    if not root.exists():
        _install(package, npm, root)
    if not any(root.glob(package.entry)):
        raise NotInstallable(f"{package.name} {package.version} has no {package.entry} for this machine")
    return root


def node() -> str:
    """The program that runs JavaScript. Raises NotInstallable."""
    found = shutil.which("node")
    if found is None:
        raise NotInstallable("node is not installed")
    return found


def _cache() -> Path:
    given = os.environ.get(CACHE_VARIABLE)
    folder = Path(given) if given else Path.home() / ".cache" / "tidegate-agents"
    folder.mkdir(parents=True, exist_ok=True)
    return folder


def _install(package: Package, npm: str, root: Path) -> None:
    """Install beside the final place and rename, so that what is there is whole."""
    draft = Path(tempfile.mkdtemp(prefix="draft-", dir=root.parent))
    try:
        (draft / "package.json").write_text('{"private": true}')
        words = [npm, "install", "--ignore-scripts", "--no-audit", "--no-fund", "--no-package-lock"]
        done = subprocess.run(
            [*words, f"{package.name}@{package.version}"],
            cwd=draft,
            capture_output=True,
            check=False,
            text=True,
            timeout=INSTALL_WITHIN_S,
        )
        if done.returncode != 0:
            raise NotInstallable(
                f"npm could not install {package.name} {package.version}: {done.stderr[-500:]}"
            )
        draft.rename(root)
    finally:
        shutil.rmtree(draft, ignore_errors=True)
