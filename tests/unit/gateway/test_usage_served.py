"""Usage as the served target's vendor reports it: in whole answers, in streams, and on the way to other dialects."""

from __future__ import annotations

import orjson
import pytest

from tidegate.events.config import Pool, Target
from tidegate.events.money import Tokens
from tidegate.events.types import Dialect, PoolId, TargetId
from tidegate.gateway.crossings import Crossings, context_for, crossed_back
from tidegate.gateway.phases import StreamPhases
from tidegate.gateway.serving import ServedTarget
from tidegate.gateway.usage_rules import ANTHROPIC, OPENAI, rules_for

XAI = {
    "prompt_tokens": 5,
    "completion_tokens": 3,
    "completion_tokens_details": {"reasoning_tokens": 10},
    "total_tokens": 18,
}
READ = Tokens(5, output=13, reasoning=10)


def served(provider: str, base_url: str) -> ServedTarget:
    config = Target(
        id=TargetId("t"), dialect="openai", base_url=base_url, model="m", provider=provider,
        also_speaks=("openai-responses", "anthropic"),
    )  # fmt: skip
    return ServedTarget(config, Pool(id=PoolId("t")), {})


def test_a_target_reads_usage_by_its_vendors_rules_in_each_dialect_it_speaks() -> None:
    target = served("x-ai", "https://a.test")
    assert target.usage_rules["openai"] == rules_for("openai", "x-ai")
    assert target.usage_rules["openai-responses"] == rules_for("responses", "x-ai")
    assert target.usage_rules["anthropic"] == ANTHROPIC
    assert served("", "https://api.x.ai/v1").usage_rules["openai"] == rules_for("openai", "x-ai")
    assert served("", "https://a.test").usage_rules["openai"] == OPENAI


@pytest.mark.parametrize("tier", [None, "priority"])
def test_a_stream_counts_what_its_vendor_bills_beside_the_completion(tier: str | None) -> None:
    phases = StreamPhases("openai", client_wants_usage=True, usage_rules=rules_for("openai", "x-ai"))
    last = {"choices": [], "usage": XAI} | ({} if tier is None else {"service_tier": tier})
    phases.feed(b'data: {"choices":[{"index":0,"delta":{"content":"x"}}]}\n\n')
    phases.feed(b"data: " + orjson.dumps(last) + b"\n\ndata: [DONE]\n\n")
    assert phases.tokens == Tokens(5, output=13, reasoning=10, service_tier=tier)


@pytest.mark.parametrize(
    ("dialect", "events"),
    [
        (
            "openai",
            [{"choices": [], "usage": {"prompt_tokens": 1, "completion_tokens": 1}, "service_tier": "flex"}],
        ),
        (
            "openai-responses",
            [
                {"type": "response.created", "response": {"usage": None, "service_tier": "auto"}},
                {
                    "type": "response.completed",
                    "response": {"usage": {"input_tokens": 1, "output_tokens": 1}, "service_tier": "flex"},
                },
            ],
        ),
        (
            "anthropic",
            [
                {"type": "message_start", "message": {"usage": {"input_tokens": 1, "service_tier": "flex"}}},
                {"type": "message_delta", "delta": {}, "usage": {"output_tokens": 1}},
            ],
        ),
    ],
)
def test_streams_of_every_dialect_tell_their_service_tier(
    dialect: Dialect, events: list[dict[str, object]]
) -> None:
    phases = StreamPhases(dialect, client_wants_usage=True)
    for event in events:
        phases.feed(b"data: " + orjson.dumps(event) + b"\n\n")
    assert phases.tokens == Tokens(1, output=1, service_tier="flex")


def test_a_client_of_another_dialect_is_told_the_same_counts() -> None:
    crossings = Crossings(
        "anthropic", b'{"model":"m","max_tokens":5,"messages":[{"role":"user","content":"hi"}]}',
        created_s=1, answer_id="a",
    )  # fmt: skip
    crossed = crossings.into("openai")
    assert crossed is not None
    rules = rules_for("openai", "x-ai")
    assert context_for(crossed, rules).usage_rules == rules
    message = {"role": "assistant", "content": "x"}
    answer = {
        "id": "a",
        "object": "chat.completion",
        "created": 1,
        "model": "m",
        "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        "usage": XAI,
    }
    told = orjson.loads(crossed_back(crossed, orjson.dumps(answer), rules))
    assert told["usage"]["output_tokens"] == READ.output
