"""Prices from a table into a config, by the commands a person would use."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

pytestmark = pytest.mark.slow


def tidegate(*arguments: str | Path, cwd: Path) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tidegate.runtime", *map(str, arguments)]
    return subprocess.run(command, capture_output=True, text=True, timeout=60, cwd=cwd, check=False)


def test_prices_are_imported_checked_and_named_by_a_config(tmp_path: Path) -> None:
    table = tmp_path / "prices.csv"
    table.write_text("model,input_uncached,output,cache_read\nopenai/gpt-4.1,1.5,6,0.5\n")
    imported = tidegate("prices", "import", "--csv", table, "-o", "own.toml", cwd=tmp_path)
    assert (imported.returncode, imported.stdout) == (0, "")
    differing = tidegate("prices", "check", "--csv", table, "--json", cwd=tmp_path)
    assert differing.returncode == 1
    assert {each["class"] for each in json.loads(differing.stdout)["differences"]} == {
        "input_uncached",
        "output",
    }
    config = tmp_path / "tidegate.toml"
    config.write_text(
        'price_file = "own.toml"\n[[tenants]]\nid = "t"\n'
        '[[targets]]\nid = "x"\ndialect = "openai"\nbase_url = "https://api.openai.com/v1"\nmodel = "gpt-4.1"\n'
        'price_book = "openai/gpt-4.1"\n[[routes]]\nname = "r"\ncandidates = [{ target = "x" }]\n'
    )
    checked = tidegate("config", "check", "--config", config, "--json", cwd=tmp_path)
    assert checked.returncode == 0, checked.stdout
    first = json.loads(checked.stdout)["digest"]
    (tmp_path / "own.toml").unlink()
    config.write_text(config.read_text().replace('price_file = "own.toml"\n', ""))
    built_in = tidegate("config", "check", "--config", config, "--json", cwd=tmp_path)
    assert json.loads(built_in.stdout)["digest"] != first, "the digest is over the numbers, not the name"
    config.write_text(config.read_text().replace("openai/gpt-4.1", "openai/gpt-4.11"))
    unknown = tidegate("config", "check", "--config", config, cwd=tmp_path)
    assert unknown.returncode == 1
    assert "near it: openai/gpt-4.1" in unknown.stderr
