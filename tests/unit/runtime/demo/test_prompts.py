"""Prompts: exactly as long as traced by the provider's own count, equal where their blocks are equal."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.runtime.demo.prompts import Prompt, PromptWriter
from tidegate.runtime.demo.workload import Span, TimedRequest, generate
from tidegate.simulator import openai_ask
from tidegate.simulator.tokens import count


def request(
    *spans: Span, tokens: int, tools: int = 0, system: int = 0, session: str = "s", at_s: float = 0.0
) -> TimedRequest:
    return TimedRequest(
        session=session, strand=0, tenant="acme", at_s=at_s, spans=spans, block_tokens=64,
        input_tokens=tokens, output_tokens=5, tool_tokens=tools, system_tokens=system,
    )  # fmt: skip


def counted(prompt: Prompt) -> bytes:
    """The prompt's bytes as the simulated provider counts them."""
    body = {"model": "m", "messages": prompt.messages()}
    if prompt.tools:
        body["tools"] = prompt.tools
    return openai_ask.read(orjson.dumps(body)).prompt


def text_of(asked: TimedRequest) -> bytes:
    return counted(PromptWriter().write(asked))


@given(
    tokens=st.integers(1, 3_000),
    tools=st.integers(0, 2_000),
    system=st.integers(0, 2_000),
    blocks=st.integers(0, 60),
)
def test_a_provider_counts_exactly_the_traced_tokens(
    tokens: int, tools: int, system: int, blocks: int
) -> None:
    text = text_of(request(Span("s", 1, blocks), tokens=tokens, tools=tools, system=system))
    assert count(len(text)) == tokens
    assert len(text) == tokens * 4


@pytest.mark.parametrize("tools", [0, 256])
@given(shared=st.integers(8, 20), own=st.tuples(st.integers(0, 9), st.integers(0, 9)))
def test_equal_leading_blocks_are_equal_leading_bytes_and_other_blocks_differ(
    tools: int, shared: int, own: tuple[int, int]
) -> None:
    left = text_of(
        request(Span("s", 1, shared), Span("s", 100, own[0]), tokens=(shared + own[0]) * 64, tools=tools)
    )
    right = text_of(
        request(Span("s", 1, shared), Span("s", 500, own[1]), tokens=(shared + own[1]) * 64, tools=tools)
    )
    size = shared * 64 * 4
    assert left[:size] == right[:size]
    assert not (all(own) and left[size : size + 256] == right[size : size + 256])


def test_a_block_is_known_by_scope_and_id_together() -> None:
    texts = {text_of(request(Span(scope, first, 2), tokens=128)) for scope in ("a", "b") for first in (1, 5)}
    assert len(texts) == 4


def test_what_no_block_covers_is_the_requests_own() -> None:
    one, other = (text_of(request(Span("s", 1, 2), tokens=150, at_s=at_s)) for at_s in (0.0, 9.0))
    assert one[: 128 * 4] == other[: 128 * 4]
    assert one[128 * 4 :] != other[128 * 4 :]


def test_tools_system_and_text_are_there_and_take_whole_blocks() -> None:
    prompt = PromptWriter().write(
        request(Span("s", 1, 40), tokens=40 * 64, tools=5 * 64 + 9, system=3 * 64 + 1)
    )
    assert len(orjson.dumps(prompt.tools)) == 5 * 64 * 4
    assert len(prompt.system) == 3 * 64 * 4
    assert len(prompt.user) == 32 * 64 * 4
    assert [message["role"] for message in prompt.messages()] == ["system", "user"]
    names = [tool["function"]["name"] for tool in prompt.tools]
    assert len(names) == len(set(names)) > 1


def test_a_prompt_shorter_than_its_head_has_no_tools_and_still_some_text() -> None:
    prompt = PromptWriter().write(request(Span("s", 1, 40), tokens=100, tools=640, system=640))
    assert prompt.tools == []
    assert prompt.user
    assert len(counted(prompt)) == 400


def test_a_writer_that_met_blocks_before_writes_the_same_as_a_new_one() -> None:
    writer = PromptWriter()
    for strand in generate(3, 5).strands():
        for asked in strand:
            assert counted(writer.write(asked)) == text_of(asked)
