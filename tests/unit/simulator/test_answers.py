"""Made-up answers have exactly the tokens that are billed, and the same seed makes the same answer."""

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.simulator.answer import MIN_TOOL_TOKENS, Answer, Part, Writer, tool_input
from tidegate.simulator.anthropic_wire import AnthropicWire
from tidegate.simulator.openai_wire import OpenAiWire, span
from tidegate.simulator.tokens import TokenClasses, count
from tidegate.simulator.wire import Wire

WRITER = Writer(seed=3)
TERMINALS = {"openai": b"[DONE]", "anthropic": b"message_stop"}


def answer(output: int, reasoning: int, *, visible: bool = True, tool: str | None = None) -> Answer:
    shown = output - reasoning
    parts: list[Part] = []
    if visible and reasoning:
        parts.append(Part("reasoning", WRITER.text(5, reasoning), reasoning, seal="c2VhbA=="))
    if tool is not None:
        parts.append(Part("tool", WRITER.arguments(0, shown), shown, tool))
    elif shown:
        parts.append(Part("text", WRITER.text(0, shown), shown))
    return Answer(
        id="1",
        created_s=1,
        model="m",
        tokens=TokenClasses(output=output, reasoning=reasoning),
        parts=tuple(parts),
        finish="stop" if tool is None else "tool",
        show_usage=True,
    )


@given(st.integers(0, 2**64), st.integers(0, 5000))
def test_a_text_of_n_tokens_counts_as_n_tokens(start: int, tokens: int) -> None:
    assert count(len(WRITER.text(start, tokens).encode())) == tokens


@given(st.integers(0, 2**64), st.integers(MIN_TOOL_TOKENS, 500))
def test_tool_arguments_are_json_of_exactly_so_many_tokens(start: int, tokens: int) -> None:
    arguments = WRITER.arguments(start, tokens)
    assert count(len(arguments.encode())) == tokens
    assert isinstance(orjson.loads(arguments), dict)


def test_seeds_make_texts() -> None:
    assert Writer(3).text(9, 50) == WRITER.text(9, 50) != Writer(4).text(9, 50)


@pytest.mark.parametrize("wire", [OpenAiWire(), AnthropicWire()], ids=lambda wire: wire.dialect)
@given(st.integers(0, 40), st.integers(0, 20), st.booleans(), st.integers(1, 7))
def test_the_events_of_a_stream_produce_every_token_once_and_end_with_the_terminal(
    wire: Wire, output: int, reasoning: int, visible: bool, size: int
) -> None:
    made = answer(output, min(reasoning, output), visible=visible)
    events = list(wire.events(made, size))
    produced = [event.produced for event in events]
    assert produced == sorted(produced)
    assert produced[-1] == output
    assert [event.stage for event in events].count("terminal") == 1
    assert TERMINALS[wire.dialect] in events[-1].data
    assert all(event.data.endswith(b"\n\n") and event.data.count(b"\n\n") == 1 for event in events)


@pytest.mark.parametrize("wire", [OpenAiWire(), AnthropicWire()], ids=lambda wire: wire.dialect)
def test_pieces_of_tool_arguments_join_to_the_whole(wire: Wire) -> None:
    made = answer(20, 4, tool="look")
    data = [event.data.split(b"data: ")[1] for event in wire.events(made, 3) if event.stage == "content"]
    pieces = [orjson.loads(each) for each in data]
    if wire.dialect == "openai":
        deltas = [piece["choices"][0]["delta"] for piece in pieces]
        text = "".join(
            delta["tool_calls"][0]["function"]["arguments"] for delta in deltas if "tool_calls" in delta
        )
    else:
        text = "".join(piece["delta"].get("partial_json", "") for piece in pieces)
    assert orjson.loads(text) == tool_input(made.calls[0])


def test_the_end_of_anthropics_output_count_is_cumulative_not_a_sum() -> None:
    events = [event.data.split(b"data: ")[1] for event in AnthropicWire().events(answer(9, 0), 1)]
    start, end = orjson.loads(events[0]), orjson.loads(events[-2])
    assert start["message"]["usage"]["output_tokens"] == 1
    assert end["usage"]["output_tokens"] == 9


@pytest.mark.parametrize(
    ("duration_s", "text"),
    [(0.12, "120ms"), (1, "1s"), (7.66, "7.66s"), (360, "6m0s"), (18_000, "5h0m0s"), (-1, "0ms")],
)
def test_openai_writes_durations_as_its_headers_do(duration_s: float, text: str) -> None:
    assert span(duration_s) == text


def test_shown_reasoning_and_a_tool_are_parts_of_a_whole_answer_in_both_dialects() -> None:
    made = answer(20, 4, tool="look")
    choice = orjson.loads(OpenAiWire().whole(made))["choices"][0]
    assert (choice["message"]["reasoning_content"], choice["message"]["content"]) == (
        made.joined("reasoning"),
        None,
    )
    assert choice["message"]["tool_calls"][0]["function"] == {"name": "look", "arguments": made.calls[0].text}
    thinking, tool = orjson.loads(AnthropicWire().whole(made))["content"]
    assert (thinking["type"], thinking["thinking"]) == ("thinking", made.joined("reasoning"))
    assert (tool["type"], tool["name"], tool["input"]) == ("tool_use", "look", tool_input(made.calls[0]))
