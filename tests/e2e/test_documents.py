"""A file reaches only targets that take files; where a route has none the client is told which fact kept them out."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import httpx

from support.fake_provider import Call, answer, gateway_over, route, target
from support.rig import KEY

PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERi0xLjQK"}
SAID: dict[str, Any] = {
    "id": "msg_1",
    "type": "message",
    "role": "assistant",
    "model": "m",
    "content": [{"type": "text", "text": "hi"}],
    "stop_reason": "end_turn",
    "usage": {"input_tokens": 7, "output_tokens": 2},
}
COMPLETION: dict[str, Any] = {
    "id": "c1",
    "object": "chat.completion",
    "created": 1,
    "model": "m",
    "choices": [{"index": 0, "message": {"role": "assistant", "content": "hi"}, "finish_reason": "stop"}],
    "usage": {"prompt_tokens": 7, "completion_tokens": 2, "total_tokens": 9},
}


def config(url: str) -> str:
    plain = target("plain", url, "openai", "documents = false")
    return plain + target("reads", url, "anthropic") + route("both", "plain", "reads") + route("one", "plain")


def provider(call: Call) -> bytes:
    return answer(COMPLETION if "chat" in call.path else SAID)


async def test_a_file_goes_to_a_target_that_takes_files_and_words_to_the_first(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, config, provider) as (rig, fake), httpx.AsyncClient() as client:

        async def ask(model: str, source: dict[str, Any]) -> httpx.Response:
            document = {"type": "document", "source": source}
            asked = {"model": model, "max_tokens": 5, "messages": [{"role": "user", "content": [document]}]}
            return await client.post(
                f"{rig.url}/v1/messages", json=asked, headers={"authorization": f"Bearer {KEY}"}
            )

        words = {"type": "text", "media_type": "text/plain", "data": "words"}
        assert (await ask("both", words)).headers["x-tidegate-target"] == "plain"
        assert (await ask("both", PDF)).headers["x-tidegate-target"] == "reads"
        refused = await ask("one", PDF)
        assert (refused.status_code, "documents" in refused.text) == (503, True)
        assert [call.path for call in fake.calls] == ["/v1/chat/completions", "/v1/messages"]
        (decision,) = [
            made for made in rig.data("DecisionMade") if made.ask.route == "both" and made.ask.documents
        ]
        assert [(each.target, each.reason) for each in decision.candidates if each.reason] == [
            ("plain", "documents")
        ]
