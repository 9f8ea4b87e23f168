"""Stream phases: what is held, forwarded, removed and dropped does not depend on how the bytes are cut."""

import itertools
from dataclasses import dataclass, field
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.events.money import Tokens
from tidegate.events.types import Dialect
from tidegate.gateway.phases import MAX_HEAD_BYTES, Step, StreamPhases

FAIR = settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.too_slow])
DONE = b"data: [DONE]\n\n"


def data_of(value: Any) -> bytes:
    return b"data: " + orjson.dumps(value) + b"\n\n"


def chunk(delta: dict[str, Any], finish: str | None = None, **more: Any) -> bytes:
    return data_of(
        {
            "id": "c",
            "model": "m-1",
            "choices": [{"index": 0, "delta": delta, "finish_reason": finish}],
            **more,
        }
    )


def usage_chunk(**usage: Any) -> bytes:
    return data_of({"id": "c", "model": "m-1", "choices": [], "usage": usage})


def event(kind: str, **more: Any) -> bytes:
    return b"event: %b\n" % kind.encode() + data_of({"type": kind, **more})


ROLE = chunk({"role": "assistant", "content": "", "refusal": None}, usage=None)
HELLO = chunk({"content": "Hello"}, usage=None)
FINISH = chunk({}, "stop", usage=None)
USAGE = usage_chunk(prompt_tokens=9, completion_tokens=3, total_tokens=12)

START = event(
    "message_start",
    message={"model": "m-1", "usage": {"input_tokens": 25, "cache_read_input_tokens": 0, "output_tokens": 1}},
)
PING = event("ping")
TEXT_START = event("content_block_start", index=0, content_block={"type": "text", "text": ""})
TEXT = event("content_block_delta", index=0, delta={"type": "text_delta", "text": "Hello"})
CLOSING = event("message_delta", delta={"stop_reason": "end_turn"}, usage={"output_tokens": 15})
STOP = event("message_stop")


@dataclass
class Outcome:
    """Everything that came out of a stream, without the trace of its reads."""

    forward: bytes = b""
    terminal: bytes | None = None
    error: dict[str, Any] | None = None
    fault: str | None = None
    committed: bool = False
    tokens: Tokens = field(default_factory=Tokens)
    model: str | None = None
    content_events: int = 0


def outcome(
    pieces: list[bytes], dialect: Dialect = "openai", *, wants_usage: bool = False, ended: bool = True
) -> Outcome:
    phases = StreamPhases(dialect, client_wants_usage=wants_usage)
    result = Outcome()

    def take(step: Step) -> None:
        result.forward += step.forward
        result.committed = step.committed
        if result.terminal is None:
            result.terminal = step.terminal
        result.error = result.error or step.error
        result.fault = result.fault or step.fault

    for piece in pieces:
        take(phases.feed(piece))
    if ended:
        take(phases.end())
    result.tokens, result.model, result.content_events = phases.tokens, phases.model, phases.content_events
    return result


def bytewise(stream: bytes) -> list[bytes]:
    return [stream[at : at + 1] for at in range(len(stream))]


# --- head


@pytest.mark.parametrize(
    "delta",
    [
        {"content": "x"},
        {"reasoning_content": "x"},
        {"reasoning": "x"},
        {"refusal": "x"},
        {"tool_calls": [{"index": 0, "function": {"arguments": "{"}}]},
        {"tool_calls": [{"index": 0, "custom": {"input": "x"}}]},
        {"function_call": {"arguments": "{"}},
        {"audio": {"data": "x"}},
        {"role": "assistant", "something_new": "x"},
    ],
)
def test_openai_commits_at_the_first_content(delta: dict[str, Any]) -> None:
    phases = StreamPhases("openai", client_wants_usage=False)
    assert phases.feed(ROLE) == Step()
    first = chunk(delta)
    assert phases.feed(first) == Step(ROLE + first, committed=True)
    assert phases.content_events == 1


@pytest.mark.parametrize(
    "delta",
    [
        {},
        {"role": "assistant"},
        {"content": ""},
        {"content": None, "reasoning_content": "", "tool_calls": []},
        {
            "tool_calls": [
                {"index": 0, "id": "c", "type": "function", "function": {"name": "f", "arguments": ""}}
            ]
        },
        {"function_call": {"name": "f", "arguments": ""}},
    ],
)
def test_openai_holds_what_is_not_content(delta: dict[str, Any]) -> None:
    assert StreamPhases("openai", client_wants_usage=False).feed(chunk(delta)) == Step()


ANTHROPIC_CONTENT = [
    TEXT,
    event("content_block_delta", index=0, delta={"type": "thinking_delta", "thinking": "x"}),
    event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": "{"}),
    event("content_block_start", index=0, content_block={"type": "text", "text": "x"}),
    event("content_block_start", index=0, content_block={"type": "redacted_thinking", "data": "x"}),
    event("content_block_start", index=0, content_block={"type": "tool_use", "input": {"a": 1}}),
]
ANTHROPIC_SILENT = [
    START,
    PING,
    TEXT_START,
    event(
        "content_block_start",
        index=0,
        content_block={"type": "tool_use", "id": "t", "name": "f", "input": {}},
    ),
    event("content_block_delta", index=0, delta={"type": "text_delta", "text": ""}),
    event("content_block_delta", index=0, delta={"type": "input_json_delta", "partial_json": ""}),
    event("content_block_delta", index=0, delta={"type": "signature_delta", "signature": "x"}),
    b": comment\n",
    b"retry: 100\n\n",
]


@pytest.mark.parametrize("content", ANTHROPIC_CONTENT)
def test_anthropic_commits_at_the_first_content(content: bytes) -> None:
    phases = StreamPhases("anthropic", client_wants_usage=True)
    for silent in ANTHROPIC_SILENT:
        assert phases.feed(silent) == Step()
    assert phases.feed(content) == Step(b"".join(ANTHROPIC_SILENT) + content, committed=True)


def test_a_head_without_content_is_bounded() -> None:
    phases = StreamPhases("anthropic", client_wants_usage=True)
    for _ in range(MAX_HEAD_BYTES // len(PING)):
        assert phases.feed(PING) == Step()
    step = phases.feed(PING)
    assert step.finished
    assert step.fault == "no content within 65536 bytes"
    assert phases.feed(TEXT) == Step(finished=True)


def test_a_first_event_larger_than_the_head_bound_is_content_like_any_other() -> None:
    big = chunk({"content": "x" * 100_000})
    assert outcome([ROLE, big, DONE]).forward == ROLE + big


def test_an_event_larger_than_its_bound_is_a_fault() -> None:
    phases = StreamPhases("openai", client_wants_usage=False, max_event_bytes=1000)
    assert phases.feed(b"data: " + b"x" * 994) == Step()
    assert phases.feed(b"xx").fault == "an event is longer than 1000 bytes"


@pytest.mark.parametrize("bad", [b"data: {\n\n", b"data: []\n\n", b"data: nonsense\n\n", b'data: "x"\n\n'])
def test_a_malformed_event_before_content_is_a_fault_and_leaks_nothing(bad: bytes) -> None:
    result = outcome([ROLE + bad + HELLO])
    assert (result.fault, result.forward, result.committed) == ("an event is not a JSON object", b"", False)


# --- body


def test_the_body_is_forwarded_at_once_and_whole_events_only() -> None:
    phases = StreamPhases("openai", client_wants_usage=False)
    phases.feed(HELLO)
    assert phases.feed(HELLO + HELLO[:30]) == Step(HELLO, committed=True)
    assert phases.feed(HELLO[30:]) == Step(HELLO, committed=True)
    assert phases.feed(b": keep-alive\n") == Step(b": keep-alive\n", committed=True)
    assert phases.content_events == 3


@pytest.mark.parametrize(
    "text",
    ["data: [DONE]\n\n", '"usage":{"prompt_tokens":1}', '"error":{"message":"x"}', "event: message_stop", "[DONE]",
     "message_stop", "usage", "error", "message_delta"],
)  # fmt: skip
def test_content_that_quotes_the_protocol_is_content(text: str) -> None:
    openai = [HELLO, chunk({"content": text}), chunk({"content": "more"})]
    result = outcome([*openai, DONE])
    assert (result.forward, result.terminal, result.error) == (b"".join(openai), DONE, None)
    delta = event("content_block_delta", index=0, delta={"type": "text_delta", "text": text})
    result = outcome([TEXT, delta, TEXT, STOP], "anthropic")
    assert (result.forward, result.terminal, result.error) == (TEXT + delta + TEXT, STOP, None)
    assert result.content_events == 3


# --- usage


@pytest.mark.parametrize(
    ("tail", "kept"),
    [
        ([FINISH, USAGE], [FINISH]),
        ([chunk({}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 3})], None),
        ([FINISH, chunk({}, usage={"prompt_tokens": 9, "completion_tokens": 3})], None),
        ([chunk({"content": "!"}, "stop", usage={"prompt_tokens": 9, "completion_tokens": 3})], None),
        ([USAGE, FINISH], [FINISH]),
        ([usage_chunk(prompt_tokens=9, completion_tokens=1), FINISH, USAGE], [FINISH]),
        ([FINISH, data_of({"usage": {"prompt_tokens": 9, "completion_tokens": 3}})], [FINISH]),
    ],
)  # fmt: skip
def test_usage_is_found_wherever_the_provider_puts_it(tail: list[bytes], kept: list[bytes] | None) -> None:
    stream = b"".join([ROLE, HELLO, *tail, DONE])
    for pieces in ([stream], bytewise(stream)):
        result = outcome(pieces)
        assert result.tokens == Tokens(input_uncached=9, output=3)
        assert result.forward == b"".join([ROLE, HELLO, *(tail if kept is None else kept)])
        assert result.terminal == DONE


def test_a_client_that_asked_for_usage_gets_every_byte() -> None:
    stream = ROLE + HELLO + FINISH + USAGE + DONE
    for pieces in ([stream], bytewise(stream)):
        result = outcome(pieces, wants_usage=True)
        assert (result.forward, result.terminal) == (stream.removesuffix(DONE), DONE)
        assert result.tokens == Tokens(input_uncached=9, output=3)


def test_chunks_without_choices_or_usage_stay() -> None:
    filters = data_of({"choices": [], "usage": None, "prompt_filter_results": []})
    assert outcome([filters, HELLO, filters, DONE]).forward == filters + HELLO + filters


def test_cumulative_usage_is_replaced_and_zero_kept() -> None:
    running = [
        chunk({"content": "x"}, usage={"prompt_tokens": 9, "completion_tokens": n}) for n in range(1, 4)
    ]
    assert outcome([*running, DONE]).tokens == Tokens(input_uncached=9, output=3)
    assert outcome([HELLO, usage_chunk(prompt_tokens=0, completion_tokens=0), DONE]).tokens == Tokens(
        0, output=0
    )


def test_anthropic_usage_comes_from_both_ends() -> None:
    result = outcome([START, TEXT, CLOSING, STOP], "anthropic")
    assert result.tokens == Tokens(input_uncached=25, cache_read=0, output=15)
    assert result.model == "m-1"
    larger = event("message_delta", delta={}, usage={"input_tokens": 30, "output_tokens": 15})
    assert outcome([START, TEXT, larger, STOP], "anthropic").tokens == Tokens(30, 0, output=15)
    only_end = [event("message_start", message={"model": "m"}), TEXT, CLOSING, STOP]
    assert outcome(only_end, "anthropic").tokens == Tokens(output=15)
    bare = event("message_delta", delta={"stop_reason": "end_turn"})
    assert outcome([START, TEXT, bare, STOP], "anthropic").tokens.output == 1


def test_the_placeholder_count_of_a_cut_stream_is_not_its_output() -> None:
    assert outcome([START, TEXT], "anthropic").tokens == Tokens(input_uncached=25, cache_read=0)
    assert outcome([START, TEXT, CLOSING], "anthropic").tokens.output == 15


def test_usage_merged_with_other_reads_is_still_removed() -> None:
    stream = HELLO + FINISH + USAGE + DONE
    cut = stream.index(USAGE) + 5
    assert outcome([stream[:cut], stream[cut:]]).forward == HELLO + FINISH


# --- tail


def test_the_terminal_event_is_held_and_what_follows_is_dropped() -> None:
    phases = StreamPhases("openai", client_wants_usage=False)
    phases.feed(HELLO)
    step = phases.feed(FINISH + DONE + HELLO)
    assert step == Step(FINISH, committed=True, terminal=DONE, finished=True)
    assert phases.feed(HELLO) == Step(committed=True, finished=True)
    assert phases.end() == Step(committed=True, finished=True)


def test_the_name_line_is_part_of_the_terminal_event() -> None:
    result = outcome(bytewise(START + TEXT + CLOSING + STOP), "anthropic")
    assert (result.forward, result.terminal) == (START + TEXT + CLOSING, STOP)


def test_an_answer_without_content_still_ends_properly() -> None:
    result = outcome([ROLE + FINISH + USAGE + DONE])
    assert (result.committed, result.forward, result.terminal) == (False, ROLE + FINISH, DONE)


@pytest.mark.parametrize("lost", [b"\n", b"\n\n"])
def test_a_terminal_event_that_only_lacks_its_blank_line_is_completed(lost: bytes) -> None:
    cases: list[tuple[Dialect, bytes, bytes]] = [("openai", HELLO, DONE), ("anthropic", TEXT, STOP)]
    for dialect, stream, terminal in cases:
        result = outcome(bytewise(stream + terminal.removesuffix(lost)), dialect)
        assert (result.forward, result.terminal) == (stream, terminal)


@pytest.mark.parametrize("cut", [b"data: [DON", b"data: {", HELLO[:-1], b"", b"event: message_stop\n"])
def test_a_stream_without_its_terminal_event_has_none(cut: bytes) -> None:
    result = outcome([HELLO + cut])
    assert (result.forward, result.terminal, result.error, result.fault) == (HELLO, None, None, None)


def test_lone_cr_line_ends_do_not_stall() -> None:
    phases = StreamPhases("openai", client_wants_usage=False)
    hello = HELLO.replace(b"\n", b"\r")
    assert phases.feed(hello) == Step(hello, committed=True)
    assert phases.feed(b"data: [DONE]\r\r") == Step(committed=True)
    assert phases.end().terminal == b"data: [DONE]\r\r"


def test_bytes_behind_a_terminal_event_of_lone_cr_release_it_at_once() -> None:
    phases = StreamPhases("openai", client_wants_usage=False)
    assert phases.feed(HELLO + b"data: [DONE]\r\rdata: x").terminal == b"data: [DONE]\r\r"


# --- errors


@pytest.mark.parametrize(
    "stream",
    [
        data_of({"error": {"message": "no", "code": 429}}),
        b"event: error\n" + data_of({"error": {"message": "no", "code": 429}}),
        b'event:error\r\ndata:{"error":{"message":"no","code":429}}\r\n\r\n',
        b'data: {"error":\ndata: {"message":"no","code":429}}\n\n',
    ],
)
def test_an_openai_error_is_typed_and_ends_the_stream(stream: bytes) -> None:
    for pieces in ([HELLO + stream + HELLO], bytewise(HELLO + stream + HELLO)):
        result = outcome(pieces)
        assert result.error == {"error": {"message": "no", "code": 429}}
        assert (result.forward, result.terminal, result.committed) == (HELLO, None, True)


def test_a_bare_error_event_is_wrapped() -> None:
    assert outcome([b'event: error\ndata: {"message":"no"}\n\n']).error == {"error": {"message": "no"}}


def test_an_anthropic_error_before_content_releases_nothing() -> None:
    overloaded = event("error", error={"type": "overloaded_error", "message": "Overloaded"})
    result = outcome(bytewise(START + PING + overloaded), "anthropic")
    assert (result.forward, result.committed) == (b"", False)
    assert result.error == {"type": "error", "error": {"type": "overloaded_error", "message": "Overloaded"}}


def test_an_error_cut_short_of_its_blank_line_is_still_an_error() -> None:
    assert outcome([HELLO + data_of({"error": {"message": "no"}}).rstrip()]).error == {
        "error": {"message": "no"}
    }


def test_an_error_that_is_null_is_none() -> None:
    stream = [chunk({"content": "x"}, error=None), chunk({"content": "y"}, error=None)]
    assert outcome([*stream, DONE]).forward == b"".join(stream)


# --- every cut, every line end, every comment

TEXTS = st.text(st.characters(codec="utf-8"), min_size=1, max_size=8) | st.sampled_from(
    [
        "[DONE]",
        "data: [DONE]",
        '"usage":{',
        '"error":{',
        "message_stop",
        "event: error",
        "\n\n",
        "中文😀",
        "\\u0075",
    ]
)
NOISE = st.sampled_from([b": c\n", b": keep-alive\n\n", b":\n", b"\n", b"retry: 5\n\n", b"id: 9\n\n"])


def _spell(draw: st.DrawFn, unit: bytes) -> bytes:
    """The same event with other line ends, other spaces, and its JSON over several data lines."""
    lines = unit.split(b"\n")[:-1]
    out = b""
    for line in lines:
        if line.startswith(b"data: {") and draw(st.booleans()):
            pretty = orjson.dumps(orjson.loads(line[6:]), option=orjson.OPT_INDENT_2).split(b"\n")
            spelled = [b"data: " + part for part in pretty]
        else:
            spelled = [
                line.replace(b": ", b":", 1) if draw(st.booleans()) and not line.startswith(b":") else line
            ]
        for part in spelled:
            end = draw(st.sampled_from([b"\n", b"\n", b"\r\n", b"\r"]))
            # CR and then LF would be one line end.
            out += part + (b"\r" if not part and end == b"\n" and out.endswith(b"\r") else end)
    return out


@dataclass
class Case:
    """A stream and what must come of it."""

    stream: bytes
    kept: bytes
    terminal: bytes
    tokens: Tokens


@st.composite
def openai_cases(draw: st.DrawFn) -> Case:
    events = [
        (ROLE, True),
        *[(chunk({"content": draw(TEXTS)}, usage=None), True) for _ in range(draw(st.integers(0, 3)))],
    ]
    output = draw(st.integers(0, 9))
    events += [(FINISH, True), (usage_chunk(prompt_tokens=4, completion_tokens=output), False)]
    return _case(draw, events, DONE, Tokens(input_uncached=4, output=output))


@st.composite
def anthropic_cases(draw: st.DrawFn) -> Case:
    deltas = [
        event("content_block_delta", index=0, delta={"type": "text_delta", "text": draw(TEXTS)})
        for _ in range(draw(st.integers(0, 3)))
    ]
    events = [(unit, True) for unit in (START, PING, TEXT_START, *deltas, CLOSING)]
    return _case(draw, events, STOP, Tokens(input_uncached=25, cache_read=0, output=15))


def _case(draw: st.DrawFn, events: list[tuple[bytes, bool]], last: bytes, tokens: Tokens) -> Case:
    stream = kept = b"\xef\xbb\xbf" if draw(st.booleans()) else b""
    for unit, stays in events:
        for noise in draw(st.lists(NOISE, max_size=2)):
            spelled = _spell(draw, noise)
            # A CR before an LF would be one line end: the two units would no longer be apart.
            if not (stream.endswith(b"\r") and spelled.startswith(b"\n")):
                stream += spelled
                kept += spelled
        spelled = _spell(draw, unit)
        stream += spelled
        kept += spelled if stays else b""
    terminal = _spell(draw, last)
    return Case(stream + terminal, kept, terminal, tokens)


def _check(case: Case, dialect: Dialect, cuts: list[int]) -> None:
    stream = case.stream
    edges = [0, *sorted(cut % (len(stream) + 1) for cut in cuts), len(stream)]
    cut_up = [stream[a:b] for a, b in itertools.pairwise(edges) if a < b]
    whole = outcome([stream], dialect)
    assert (whole.forward, whole.terminal, whole.tokens) == (case.kept, case.terminal, case.tokens)
    assert (whole.error, whole.fault) == (None, None)
    assert outcome(cut_up, dialect) == whole
    assert outcome(bytewise(stream), dialect) == whole


@pytest.mark.slow
@FAIR
@given(openai_cases(), st.lists(st.integers(0, 5000), max_size=6))
def test_openai_output_does_not_depend_on_cuts_line_ends_or_comments(case: Case, cuts: list[int]) -> None:
    _check(case, "openai", cuts)
    everything = outcome([case.stream], wants_usage=True)
    assert everything.forward + (everything.terminal or b"") == case.stream


@pytest.mark.slow
@FAIR
@given(anthropic_cases(), st.lists(st.integers(0, 5000), max_size=6))
def test_anthropic_output_does_not_depend_on_cuts_line_ends_or_comments(case: Case, cuts: list[int]) -> None:
    _check(case, "anthropic", cuts)


@FAIR
@given(
    st.lists(
        st.binary(max_size=40) | st.sampled_from([ROLE, HELLO, USAGE, DONE, START, TEXT, STOP]), max_size=6
    )
)
def test_hostile_bytes_give_steps_and_never_an_error(pieces: list[bytes]) -> None:
    for dialect in ("openai", "anthropic"):
        result = outcome([piece for piece in pieces if piece], dialect)
        assert outcome(bytewise(b"".join(pieces)), dialect).forward == result.forward


JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(0, 5)
    | st.sampled_from(["", "x", "text", "signature_delta", "tool_use"]),
    lambda inner: (
        st.lists(inner, max_size=2)
        | st.dictionaries(
            st.sampled_from(
                [
                    "type",
                    "text",
                    "delta",
                    "function",
                    "custom",
                    "arguments",
                    "input",
                    "tool_calls",
                    "function_call",
                ]
            ),
            inner,
            max_size=3,
        )
    ),
    max_leaves=8,
)
KINDS = st.sampled_from(["message_start", "message_delta", "content_block_start", "content_block_delta"])


@pytest.mark.slow
@FAIR
@given(st.lists(st.tuples(KINDS, JSON, JSON), min_size=1, max_size=4))
def test_events_of_any_shape_are_read_and_never_an_error(shapes: list[tuple[str, Any, Any]]) -> None:
    for kind, first, second in shapes:
        fields = {"message": first, "delta": first, "content_block": first, "usage": second, "model": second}
        assert outcome([event(kind, **fields), STOP], "anthropic").terminal == STOP
        choices = [
            first,
            {"delta": second},
            {"delta": {"tool_calls": [first, second], "function_call": first}},
        ]
        assert outcome([data_of({"choices": choices, "model": first}), DONE]).terminal == DONE
        assert outcome([data_of({"choices": first, "usage": second}), DONE]).terminal == DONE


@pytest.mark.parametrize("at", range(1, len(HELLO + FINISH + USAGE + DONE)))
def test_every_single_cut_of_a_plain_stream(at: int) -> None:
    stream = HELLO + FINISH + USAGE + DONE
    result = outcome([stream[:at], stream[at:]])
    assert (result.forward, result.terminal) == (HELLO + FINISH, DONE)
    assert result.tokens == Tokens(input_uncached=9, output=3)
