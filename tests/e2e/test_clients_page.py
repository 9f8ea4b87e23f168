"""Every Python snippet of the clients' page runs as it stands, against every dialect an upstream may speak."""

from __future__ import annotations

import asyncio
import re
from pathlib import Path
from typing import Any

import pytest

from support.dialect_rig import CHATS, billed, dialect_rig
from support.fake_provider import route
from support.rig import KEY

PAGE = Path(__file__).parents[2] / "docs" / "reference" / "clients.md"
SNIPPETS = re.findall(r"^```python\n(.*?)^```$", PAGE.read_text(), re.MULTILINE | re.DOTALL)


def run(snippet: str) -> None:
    names: dict[str, Any] = {"__name__": "__main__"}
    exec(compile(snippet, PAGE.name, "exec"), names)
    names["client"].close()


@pytest.mark.parametrize("upstream", CHATS)
async def test_every_snippet_runs_whatever_the_upstream_speaks(
    tmp_path: Path, upstream: str, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    routes = route("chat", f"only-{upstream}") + route("vectors", "only-openai-embeddings")
    async with dialect_rig(tmp_path, routes) as (rig, simulator):
        monkeypatch.setenv("TIDEGATE_URL", rig.url)
        monkeypatch.setenv("TIDEGATE_API_KEY", KEY)
        assert len(SNIPPETS) == 7
        for snippet in SNIPPETS:
            await asyncio.to_thread(run, snippet)
            assert capsys.readouterr().out.strip()
        await rig.wait_event("RequestFinished", 7)
        assert {data.outcome for data in rig.data("RequestFinished")} == {"completed"}
        assert rig.ledger() == billed(simulator) > 0
