"""Every other way to write a stream says the same: SDKs read the same answer, and the bill is the same."""

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import anthropic
import openai
import orjson
import pytest

from tidegate.simulator.actions import Body
from tidegate.simulator.faults import FaultUnknown, check, parse
from tidegate.simulator.server import RunningSimulator
from tidegate.simulator.shape_catalogue import CHOICES, SHAPES, USAGE_PLACES
from unit.simulator.conftest import Simulate
from unit.simulator.rig import MODEL, Bench, body_of, chat, headers_of, last_line, message, status_of
from unit.simulator.test_scripts import CHAT_TOOLS, MESSAGE_TOOLS, SCRIPTS, USER, told

CHAT, MESSAGES, RESPONSES = "/v1/chat/completions", "/v1/messages", "/v1/responses"
PAGE = Path(__file__).resolve().parents[3] / "docs" / "reference" / "simulator.md"
DIALECTS = {"openai": CHAT, "anthropic": MESSAGES, "responses": RESPONSES}
ALL = [
    *(kind for kind in SHAPES if kind not in CHOICES),
    *(f"{kind};{name}={word}" for kind, (name, words) in CHOICES.items() for word in words),
    "comments;every=3;place=inside",
    "huge_line;bytes=70000;kind=data",
]
# What no SDK can read rightly, or reads as something else; the gateway must.
ODD_CHATS = {
    "tool_index;kind=duplicate", "tool_index;kind=gap", "tool_index;kind=missing", "late_content", "repeated_names", "repeated_role",
    "usage_at;where=before_finish", "usage_at;where=late", "usage_at;where=null", "zero_usage", "bom", "unended",
}  # fmt: skip
RESPONSE_TOOLS: Any = [
    {"type": "function", "name": "look", "parameters": {"type": "object", "properties": {}}},
    {"type": "function", "name": "wait"},
]


def fits(shape: str, dialect: str) -> bool:
    fault = parse(shape)
    return fault.kind != "usage_at" or fault.text("where") in USAGE_PLACES[dialect]


def body(dialect: str) -> dict[str, Any]:
    if dialect == "openai":
        return chat(tools=CHAT_TOOLS, stream=True, stream_options={"include_usage": True})
    if dialect == "anthropic":
        return message(tools=MESSAGE_TOOLS, stream=True)
    return {"model": "m", "input": "hello there", "tools": RESPONSE_TOOLS, "stream": True}


async def written(dialect: str, shape: str | None, script: str = "work") -> tuple[Bench, bytes]:
    bench = Bench(scripts=SCRIPTS, tokens_per_event=2, latency={"ttft_ms": 100, "tokens_per_s": 10})
    more = {} if shape is None else {"x_sim_shape": shape}
    actions = await bench.ask(body(dialect), DIALECTS[dialect], x_sim_script=script, **more)
    assert status_of(actions) == 200, body_of(actions)
    return bench, body_of(actions)


@pytest.mark.parametrize("shape", ALL)
@pytest.mark.parametrize("dialect", DIALECTS)
async def test_another_way_to_write_takes_the_same_time_and_costs_the_same(dialect: str, shape: str) -> None:
    if not fits(shape, dialect):
        actions = await Bench(scripts=SCRIPTS).ask(body(dialect), DIALECTS[dialect], x_sim_shape=shape)
        assert status_of(actions) == 400
        return
    plain, _ = await written(dialect, None)
    other, _ = await written(dialect, shape)
    first, second = last_line(plain), last_line(other)
    assert (second.outcome, second.billed) == ("completed", True)
    if shape == "zero_usage":
        assert (second.cost_nanousd, second.tokens.total) == (0, 0)
    else:
        assert (first.tokens, first.cost_nanousd) == (second.tokens, second.cost_nanousd)
        assert other.clock.now_s() == pytest.approx(plain.clock.now_s())


@pytest.fixture
async def simulator(simulate: Simulate) -> RunningSimulator:
    return await simulate(scripts=SCRIPTS, tokens_per_event=2)


@pytest.fixture
async def chats(simulator: RunningSimulator) -> AsyncIterator[openai.AsyncOpenAI]:
    quick = openai.DefaultAsyncHttpxClient(verify=False)
    url = simulator.base_url("p") + "/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0, http_client=quick) as made:
        yield made


async def test_the_openai_sdk_reads_the_same_chat_however_it_is_written(chats: openai.AsyncOpenAI) -> None:
    asked: Any = {"model": "m", "messages": USER, "tools": CHAT_TOOLS}
    plain = await chats.chat.completions.create(**asked, extra_headers={"x-sim-script": "work"})
    assert plain.usage is not None
    for shape in ALL:
        if not fits(shape, "openai") or shape in ODD_CHATS:
            continue
        headers = {"x-sim-script": "work", "x-sim-shape": shape}
        more: Any = {"stream_options": {"include_usage": True}, "extra_headers": headers}
        async with chats.chat.completions.stream(**asked, **more) as stream:
            other = await stream.get_final_completion()
        one, two = told(plain.choices[0].to_dict()), told(other.choices[0].to_dict())
        two["message"].pop("x_sim", None)
        assert two == one, shape
        assert other.usage is not None, shape
        assert (other.usage.prompt_tokens, other.usage.completion_tokens) == (
            plain.usage.prompt_tokens,
            plain.usage.completion_tokens,
        ), shape


async def test_the_openai_sdk_reads_the_same_response_however_it_is_written(
    chats: openai.AsyncOpenAI,
) -> None:
    for shape in ALL:
        if parse(shape).kind in ("usage_at", "zero_usage", "bom", "unended"):
            continue
        headers = {"x-sim-script": "work", "x-sim-shape": shape}
        async with chats.responses.stream(
            model="m", input="hello", tools=RESPONSE_TOOLS, extra_headers=headers
        ) as stream:
            found = await stream.get_final_response()
        assert [item.type for item in found.output] == [
            "reasoning",
            "message",
            "function_call",
            "function_call",
        ]
        assert found.output_text == "I look “twice”."
        assert found.usage is not None
        assert found.usage.output_tokens_details.reasoning_tokens > 0


async def test_the_anthropic_sdk_reads_the_same_message_however_it_is_written(
    simulator: RunningSimulator,
) -> None:
    quick = anthropic.DefaultAsyncHttpxClient(verify=False)
    asked: Any = {"model": "m", "messages": USER, "tools": MESSAGE_TOOLS, "max_tokens": 500}
    url = simulator.base_url("p")
    async with anthropic.AsyncAnthropic(
        base_url=url, api_key="x", max_retries=0, http_client=quick
    ) as client:
        plain = await client.messages.create(**asked, extra_headers={"x-sim-script": "work"})
        for shape in ALL:
            if not fits(shape, "anthropic") or shape in ("zero_usage", "bom", "unended", "unknown_events"):
                continue
            if parse(shape).kind == "usage_at" and parse(shape).text("where") in ("start", "null"):
                continue
            headers = {"x-sim-script": "work", "x-sim-shape": shape}
            async with client.messages.stream(**asked, extra_headers=headers) as stream:
                other = await stream.get_final_message()
            one, two = told(plain.to_dict()), told(other.to_dict())
            assert two["usage"].pop("output_tokens") == one["usage"]["output_tokens"]
            assert two["content"] == one["content"], shape
            assert two["stop_reason"] == one["stop_reason"]


def chunks(stream: bytes) -> list[Any]:
    return [orjson.loads(data) for data in _datas(stream)]


@pytest.mark.parametrize(
    ("where", "places"),
    [
        ("own", [-1]),
        ("finish", [-1]),
        ("last_content", [-1]),
        ("before_finish", [-2]),
        ("empty_delta", [-1]),
        ("twice", [-2, -1]),
        ("late", [-1]),
        ("null", []),
    ],
)
async def test_the_usage_of_a_chat_stands_where_it_is_wanted(where: str, places: list[int]) -> None:
    _, stream = await written("openai", f"usage_at;where={where}")
    found = chunks(stream)
    assert [place - len(found) for place, chunk in enumerate(found) if chunk.get("usage")] == places
    assert stream.rstrip().endswith(b"data: [DONE]") == (where != "late")
    reasons = [choice["finish_reason"] for chunk in found for choice in chunk["choices"]]
    assert [reason for reason in reasons if reason] == ["tool_calls"]
    if where in ("finish", "last_content"):
        assert found[-1]["choices"][0]["finish_reason"] == "tool_calls"
    if where == "last_content":
        assert found[-1]["choices"][0]["delta"]


async def test_running_totals_grow_and_end_with_the_bill() -> None:
    bench, stream = await written("openai", "usage_at;where=every")
    counts = [chunk["usage"]["completion_tokens"] for chunk in chunks(stream)]
    assert counts == sorted(counts)
    assert counts[0] == 0
    assert counts[-1] == last_line(bench).tokens.output


@pytest.mark.parametrize("where", ["start", "end", "both", "larger", "null"])
async def test_the_usage_of_a_message_stands_where_it_is_wanted(where: str) -> None:
    bench, stream = await written("anthropic", f"usage_at;where={where}")
    first, last = chunks(stream)[0]["message"]["usage"], chunks(stream)[-2]
    billed = last_line(bench).tokens
    whole = (billed.prompt, billed.output)

    def counts(usage: dict[str, int]) -> tuple[int, int]:
        return usage["input_tokens"], usage["output_tokens"]

    match where:
        case "start":
            assert counts(first) == whole
            assert "usage" not in last
        case "null":
            assert first is last["usage"] is None
        case _:
            begun = {"end": (0, 0), "both": (billed.prompt, 1), "larger": (billed.prompt // 2, 1)}
            assert (counts(first), counts(last["usage"])) == (begun[where], whole)


@pytest.mark.parametrize("dialect", ["openai", "anthropic", "responses"])
async def test_a_usage_of_null_is_hidden_in_whole_answers_too(dialect: str) -> None:
    bench = Bench(shapes=["usage_at;where=null"])
    asked = {**body(dialect), "stream": False}
    asked.pop("stream_options", None)
    answer = orjson.loads(body_of(await bench.ask(asked, DIALECTS[dialect])))
    assert answer.get("usage") is None
    assert last_line(bench).tokens.output > 0


@pytest.mark.parametrize("stream", [True, False])
@pytest.mark.parametrize("dialect", ["openai", "anthropic", "responses"])
async def test_zeros_are_reported_as_zeros(dialect: str, stream: bool) -> None:
    bench = Bench()
    asked = {**body(dialect), "stream": stream}
    if not stream:
        asked.pop("stream_options", None)
    answer = body_of(await bench.ask(asked, DIALECTS[dialect], x_sim_fault="zero_usage"))
    assert b'"output_tokens":0' in answer or b'"completion_tokens":0' in answer
    assert (last_line(bench).fault, last_line(bench).cost_nanousd) == ("zero_usage", 0)


async def test_content_can_come_after_the_finish_reason() -> None:
    _, stream = await written("openai", "late_content", script="halt")
    found = [chunk for chunk in chunks(stream) if chunk["choices"]]
    assert found[-2]["choices"][0]["finish_reason"] == "stop"
    assert (
        found[-1]["choices"][0]["delta"]["content"]
        == "one two"[-len(found[-1]["choices"][0]["delta"]["content"]) :]
    )
    assert "late" not in str((await written("openai", "late_content", script="no"))[1])


@pytest.mark.parametrize(("kind", "indexes"), [("duplicate", {0}), ("gap", {1, 3}), ("missing", {None})])
async def test_calls_get_the_indexes_that_are_wanted(kind: str, indexes: set[int | None]) -> None:
    _, stream = await written("openai", f"tool_index;kind={kind}")
    calls = [
        call
        for chunk in chunks(stream)
        for choice in chunk["choices"]
        for call in choice["delta"].get("tool_calls", [])
    ]
    assert {call.get("index") for call in calls} == indexes


async def test_calls_can_come_in_one_piece_with_every_name_repeated_or_in_turns() -> None:
    def calls(stream: bytes) -> list[Any]:
        deltas = [choice["delta"] for chunk in chunks(stream) for choice in chunk["choices"]]
        return [call for delta in deltas for call in delta.get("tool_calls", [])]

    plain = calls((await written("openai", None))[1])
    whole = calls((await written("openai", "one_piece"))[1])
    assert len(whole) == 2
    text = "".join(call["function"].get("arguments", "") for call in plain if call["index"] == 0)
    assert whole[0]["function"] == {"name": "look", "arguments": text}
    named = calls((await written("openai", "repeated_names"))[1])
    assert {call["function"]["name"] for call in named} == {"look", "wait"}
    assert all(call["id"] and call["type"] == "function" for call in named)
    mixed = [call["index"] for call in calls((await written("openai", "interleaved"))[1])]
    assert mixed[:4] == [0, 1, 0, 1]
    assert sorted(mixed) == sorted(call["index"] for call in plain)


@pytest.mark.parametrize("dialect", DIALECTS)
async def test_bytes_are_written_as_they_are_wanted(dialect: str) -> None:
    async def shaped(shape: str) -> bytes:
        return (await written(dialect, shape))[1]

    plain = await shaped("write_cuts")
    assert await shaped("one_lump") == plain == (await written(dialect, None))[1]
    escaped = await shaped("escapes")
    assert escaped.isascii()
    assert escaped != plain
    assert list(map(orjson.loads, _datas(escaped))) == list(map(orjson.loads, _datas(plain)))
    assert await shaped("line_ends;kind=crlf") == plain.replace(b"\n", b"\r\n")
    assert await shaped("line_ends;kind=cr") == plain.replace(b"\n", b"\r")
    mixed = await shaped("line_ends;kind=mixed")
    assert mixed.replace(b"\r\n", b"\n").replace(b"\r", b"\n") == plain
    assert {b"\n\n", b"\r\n\r\n", b"\r\r"} == {end for end in (b"\n\n", b"\r\n\r\n", b"\r\r") if end in mixed}
    assert await shaped("bom") == b"\xef\xbb\xbf" + plain
    assert b"data: " not in await shaped("no_space")
    assert await shaped("unended") == plain[:-1]
    assert (await shaped("comments;every=2")).count(b": SIM PROCESSING\n\n") == -(-plain.count(b"\n\n") // 2)
    assert b"x" * 70_000 in await shaped("huge_line;bytes=70000")
    assert b" " * 70_000 in await shaped("huge_line;bytes=70000;kind=data")
    assert b"\nretry: 1000\n" in await shaped("extra_fields")
    joined = (await shaped("data_lines")).replace(b"\ndata: \n", b"\n")
    assert joined.count(b",\ndata: ") == sum(b"," in event for event in plain.split(b"\n\n"))


async def test_writes_are_cut_inside_letters_and_before_the_ends_of_lines() -> None:
    async def pieces(shape: str) -> list[bytes]:
        bench = Bench(scripts=SCRIPTS)
        actions = await bench.ask(body("anthropic"), MESSAGES, x_sim_script="work", x_sim_shape=shape)
        return [action.data for action in actions if isinstance(action, Body)]

    letters = [piece for piece in await pieces("write_cuts") if not _is_text(piece)]
    assert len(letters) >= 2
    lines = await pieces("line_ends;kind=crlf,write_cuts;at=line")
    assert lines.count(b"\n") == len(lines) // 2


def _datas(stream: bytes) -> list[bytes]:
    return [line.removeprefix(b"data: ") for line in stream.split(b"\n") if line.startswith(b"data: {")]


def _is_text(data: bytes) -> bool:
    try:
        data.decode()
    except UnicodeDecodeError:
        return False
    return True


async def test_a_provider_may_have_habits_and_a_fault_may_strike_with_them() -> None:
    bench = Bench(shapes=["no_space", "line_ends;kind=crlf"])
    actions = await bench.ask(chat(stream=True), x_sim_fault="cut;after_tokens=4", x_sim_output_tokens="9")
    assert b'data:{"id"' in body_of(actions)
    assert b"\r\n\r\n" in body_of(actions)
    assert (last_line(bench).outcome, last_line(bench).tokens.output) == ("cut", 4)


@pytest.mark.parametrize(
    "shape", ["nonsense", "line_ends;kind=lf", "bom;x=1", "comments;every=x", "usage_at;where=start"]
)
async def test_a_shape_that_is_not_in_the_catalogue_is_refused(shape: str) -> None:
    actions = await Bench().ask(chat(), x_sim_shape=shape)
    assert status_of(actions) == 400
    assert orjson.loads(body_of(actions))["error"]["code"] == "sim_fault_unknown"


@pytest.mark.parametrize("kind", SHAPES)
def test_every_shape_is_on_the_reference_page_with_its_parameters(kind: str) -> None:
    page = PAGE.read_text(encoding="utf-8")
    row = next((line for line in page.splitlines() if line.startswith(f"| `{kind}`")), "")
    assert all(f"`{name}` ({default})" in row for name, default in SHAPES[kind].params.items()), kind
    assert row
    words = CHOICES.get(kind, ("", ()))[1]
    assert all(f"`{word}`" in row for word in words)


@pytest.mark.parametrize("kind", SHAPES)
def test_every_shape_takes_its_own_defaults(kind: str) -> None:
    check(kind, SHAPES[kind].params)
    with pytest.raises(FaultUnknown):
        check(kind, {"x": "1"})


@pytest.mark.parametrize("shape", ["usage_at;where=last_content", "late_content", "interleaved"])
async def test_a_stream_without_usage_or_content_has_nothing_to_move(shape: str) -> None:
    hidden = Bench(models=[{**MODEL, "reasoning_tokens": 3}])
    more = {"x_sim_shape": shape, "x_sim_output_tokens": "3"}
    silent = await hidden.ask(chat(stream=True), **more)
    assert [
        choice["delta"].get("content") for chunk in chunks(body_of(silent)) for choice in chunk["choices"]
    ] == [
        "",
        None,
    ]
    shown = await hidden.ask(chat(stream=True, stream_options={"include_usage": True}), **more)
    last = chunks(body_of(shown))[-1]
    assert last["usage"]["completion_tokens"] == 3
    assert bool(last["choices"]) == (shape == "usage_at;where=last_content")


async def test_errors_pings_and_limits_are_those_of_the_vendor_whatever_the_shape() -> None:
    shape, window = "no_space", [{"duration_s": 60, "unit": "requests", "limit": 9, "kind": "first_request"}]
    for fault in ("error_200", "error_200;after_tokens=2", "first_token_stall;seconds=3;ping_s=1", "503"):
        plain, other = [
            await Bench(windows=window).ask(message(stream=True), MESSAGES, x_sim_fault=fault, **more)
            for more in ({}, {"x_sim_shape": shape})
        ]
        assert headers_of(plain) == headers_of(other)
        found = (
            body_of(other).replace(b"event:", b"event: ").replace(b"data:", b"data: ").replace(b":  ", b": ")
        )
        assert found == body_of(plain)


async def test_what_hides_the_usage_of_a_message_leaves_nothing_to_move() -> None:
    asked = body("anthropic")
    first = await Bench().ask(asked, MESSAGES, x_sim_fault="hidden_usage")
    second = await Bench().ask(asked, MESSAGES, x_sim_fault="hidden_usage", x_sim_shape="usage_at;where=both")
    assert body_of(first) == body_of(second)
