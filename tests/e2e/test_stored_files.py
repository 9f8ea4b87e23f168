"""Files that are named by their id reach the provider that has them, nobody else, and are never counted as nothing."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from support.dialect_rig import CHATS, billed
from support.report_rig import PAIRS, bodies, lines, report_rig, with_bills
from support.report_traces import PATHS, leave
from support.rig import KEY, PATIENCE_S

FILE: dict[str, Any] = {"type": "file", "file_id": "file-1"}
PARTS: dict[str, list[dict[str, Any]]] = {
    "openai": [{"type": "file", "file": {"file_id": "file-1"}}],
    "anthropic": [
        {"type": "image", "source": FILE},
        {"type": "document", "source": FILE},
        {"type": "container_upload", "file_id": "file-1"},
    ],
    "openai-responses": [
        {"type": "input_file", "file_id": "file-1"},
        {"type": "input_image", "file_id": "file-1", "detail": "auto"},
    ],
}
UNREAD = "container_upload"
"""Lies where tools run, and is no part of the prompt."""


def turns(client: str, part: dict[str, Any]) -> dict[str, Any]:
    asked = [{"role": "user", "content": [part]}]
    return {"input": asked} if client == "openai-responses" else {"messages": asked, "max_tokens": 50}


async def test_a_stored_file_is_passed_on_in_its_dialect_and_refused_by_name_for_any_other(
    tmp_path: Path,
) -> None:
    async with report_rig(tmp_path) as (rig, simulator), httpx.AsyncClient(timeout=PATIENCE_S) as http:
        served = 0
        for client, upstream in PAIRS:
            for part in PARTS[client]:
                answer = await http.post(
                    rig.url + PATHS[client],
                    json={"model": f"to-{upstream}", **turns(client, part)},
                    headers={"authorization": f"Bearer {KEY}"},
                )
                told = answer.json()
                if client == upstream:
                    assert answer.status_code == 200, told
                    served += 1
                    name = "input" if client == "openai-responses" else "messages"
                    assert bodies(simulator)[-1][name][0]["content"] == [part]
                else:
                    assert (answer.status_code, told["error"]["code"]) == (400, "request_incompatible")
                    assert "[0].content[0]" in told["error"]["message"]
                    assert "a file stored at one provider" in told["error"]["message"]
                    assert len(lines(simulator)) == served, "nothing was sent"
        finished = await rig.wait_event("RequestFinished", served)
        assert {data.outcome for data in finished} == {"completed"}
        stored = [data.stored_files for data in rig.data("AttemptStarted")]
        assert stored == [part["type"] != UNREAD for client in CHATS for part in PARTS[client]]
        assert rig.ledger() == billed(simulator) > 0


async def test_whoever_leaves_an_answer_to_a_stored_file_is_not_charged_as_if_it_were_empty(
    tmp_path: Path,
) -> None:
    async with report_rig(tmp_path, latency={"ttft_ms": 1, "tokens_per_s": 40}) as (rig, simulator):
        asked = [(client, part) for client in CHATS for part in PARTS[client] if part["type"] != UNREAD]
        for client, part in asked:
            await leave(rig, client, client, 1, words="see", **turns(client, part))
        await rig.wait_event("RequestFinished", len(asked))
        for end, start in zip(rig.data("UsageSettled"), rig.data("AttemptStarted"), strict=True):
            assert (end.basis, end.input_estimate, end.attempt) == ("estimated", None, start.attempt)
            told = end.tokens.input_uncached
            assert end.cost_nanousd > 3_000 * (1_000 if told is None else told)
        found = await with_bills(rig)
        assert found.is_balanced
        assert found.after.nanousd == billed(simulator) > 0
