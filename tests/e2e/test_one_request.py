"""One request through everything, with the official SDKs."""

from __future__ import annotations

from pathlib import Path

import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from support.rig import KEY, Rig, running_rig

MESSAGES = [{"role": "user", "content": "Why is the sky blue? " * 20}]


def openai_client(rig: Rig) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{rig.url}/v1", api_key=KEY, max_retries=0)


def anthropic_client(rig: Rig) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=rig.url, api_key=KEY, max_retries=0)


@pytest.mark.parametrize("durability", ["strict", "fast"])
async def test_openai_answers_whole_and_streamed_and_the_ledger_is_the_invoice(
    tmp_path: Path, durability: str
) -> None:
    async with running_rig(tmp_path, durability=durability) as rig, openai_client(rig) as client:
        whole = await client.chat.completions.create(model="chat", messages=MESSAGES)  # type: ignore[arg-type]
        assert whole.choices[0].message.content
        stream = await client.chat.completions.create(model="chat", messages=MESSAGES, stream=True)  # type: ignore[arg-type]
        text = ""
        async for chunk in stream:
            assert chunk.choices, "the usage chunk was not asked for"
            text += chunk.choices[0].delta.content or ""
        assert text
        await rig.wait_event("RequestFinished", 2)
        kinds = [envelope.type for envelope, _ in rig.events()]
        assert kinds == [
            "RequestAdmitted", "DecisionMade", "AttemptStarted", "UsageSettled", "RequestFinished",
            "RequestAdmitted", "DecisionMade", "AttemptStarted", "FirstTokenSeen", "UsageSettled", "RequestFinished",
        ]  # fmt: skip
        assert {data.basis for data in rig.data("UsageSettled")} == {"reported"}
        assert rig.ledger() == rig.invoice() > 0


async def test_anthropic_answers_whole_and_streamed_and_the_ledger_is_the_invoice(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig, anthropic_client(rig) as client:
        whole = await client.messages.create(model="messages", max_tokens=64, messages=MESSAGES)  # type: ignore[arg-type]
        async with client.messages.stream(model="messages", max_tokens=64, messages=MESSAGES) as stream:  # type: ignore[arg-type]
            final = await stream.get_final_message()
        assert final.content
        assert whole.content
        await rig.wait_event("RequestFinished", 2)
        assert {data.basis for data in rig.data("UsageSettled")} == {"reported"}
        assert rig.ledger() == rig.invoice() > 0
