"""Web searches that a provider runs by itself are billed by the piece: the ledger counts those that are billed, and no page
that was only opened."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx
import pytest

from support.dialect_rig import billed
from support.report_rig import ask, lines, report_rig, with_bills
from support.rig import KEY, PATIENCE_S

SEARCH = 10_000_000_000_000
"""Nano-dollars per million searches: ten dollars a thousand."""
REQUEST = 25_000_000_000_000
TOOLS: dict[str, list[dict[str, Any]]] = {
    "anthropic": [{"type": "web_search_20250305", "name": "web_search"}],
    "openai-responses": [{"type": "web_search"}],
}
WORDS = "When is high tide? "


@pytest.mark.parametrize("dialect", TOOLS)
async def test_each_search_is_charged_streamed_or_not(tmp_path: Path, dialect: str) -> None:
    more = 'web_search = "10000"\n'
    async with report_rig(tmp_path, model={"web_search": SEARCH}, more_prices=more) as (rig, simulator):
        for stream in (True, False):
            for searches in (0, 1, 3):
                headers = {"x-sim-web-searches": str(searches)}
                asked = {"tools": TOOLS[dialect]} if searches else {}
                heard, _ = await ask(rig, dialect, dialect, WORDS, stream=stream, headers=headers, **asked)
                assert heard.text
        await rig.wait_event("RequestFinished", 6)
        assert [line.tokens.web_searches for line in lines(simulator)] == [0, 1, 3, 0, 1, 3]
        ends = rig.data("UsageSettled")
        assert [end.tokens.web_searches or 0 for end in ends] == [0, 1, 3, 0, 1, 3]
        assert [end.cost_nanousd for end in ends] == [line.cost_nanousd for line in lines(simulator)]
        assert rig.ledger() == billed(simulator) > 8 * SEARCH // 1_000_000
        assert (await with_bills(rig)).is_balanced


@pytest.mark.parametrize("dialect", TOOLS)
async def test_searches_of_an_answer_that_breaks_are_charged(tmp_path: Path, dialect: str) -> None:
    """What was searched before a stream was cut is on the bill, though no usage was told."""
    more = 'web_search = "10000"\n'
    async with report_rig(tmp_path, model={"web_search": SEARCH}, more_prices=more) as (rig, simulator):
        headers = {
            "authorization": f"Bearer {KEY}",
            "x-sim-web-searches": "2",
            "x-sim-output-tokens": "30",
            "x-sim-fault": "cut;after_tokens=12",
        }
        asked: dict[str, Any] = {"model": f"to-{dialect}", "stream": True, "tools": TOOLS[dialect]}
        asked |= (
            {"messages": [{"role": "user", "content": WORDS}], "max_tokens": 99}
            if dialect == "anthropic"
            else {"input": WORDS}
        )
        path = "/v1/messages" if dialect == "anthropic" else "/v1/responses"
        async with httpx.AsyncClient(trust_env=False, timeout=PATIENCE_S) as http:
            told = await http.post(rig.url + path, json=asked, headers=headers)
        assert "stream_truncated" in told.text
        (end,) = await rig.wait_event("UsageSettled")
        (line,) = lines(simulator)
        assert (end.basis, end.tokens.web_searches, line.tokens.web_searches) == ("estimated", 2, 2)
        assert abs((end.cost_nanousd or 0) - line.cost_nanousd) < SEARCH // 1_000_000
        assert (await with_bills(rig)).is_balanced


async def test_a_chat_model_that_always_searches_is_charged_by_the_request(tmp_path: Path) -> None:
    """Its answers do not tell of a search: the fee is one of each request, as OpenAI bills its search models."""
    async with report_rig(tmp_path, model={"request": REQUEST}, more_prices='request = "25000"\n') as (
        rig,
        simulator,
    ):
        for stream in (True, False):
            heard, _ = await ask(
                rig, "openai", "openai", WORDS, stream=stream, tools=[], web_search_options={}
            )
            assert heard.text
        await rig.wait_event("RequestFinished", 2)
        assert rig.ledger() == billed(simulator) > 2 * REQUEST // 1_000_000
        assert (await with_bills(rig)).is_balanced
