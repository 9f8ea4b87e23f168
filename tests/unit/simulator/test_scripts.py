"""Scripted and seeded answers: what an SDK gathers from a stream is the whole answer, and both are billed alike."""

from collections.abc import AsyncIterator
from typing import Any

import anthropic
import openai
import orjson
import pytest

from tidegate.simulator.server import RunningSimulator
from unit.simulator.conftest import Simulate
from unit.simulator.rig import MODEL, Bench, body_of, chat, last_line, message, status_of

CHAT, MESSAGES = "/v1/chat/completions", "/v1/messages"
SCHEMA = {
    "type": "object",
    "properties": {
        "where": {"type": "string", "minLength": 3},
        "deep": {"type": ["integer", "null"], "minimum": 2, "maximum": 4},
        "kind": {"enum": ["ebb", "flood"]},
        "next": {"anyOf": [{"$ref": "#/$defs/time"}, {"type": "null"}]},
        "some": {"type": "array", "items": {"type": "boolean"}, "minItems": 1, "maxItems": 3},
        "one": {"const": 1},
    },
    "required": ["where", "kind"],
    "$defs": {"time": {"type": "object", "properties": {"at": {"type": "number", "maximum": 3}}}},
}
CHAT_TOOLS: Any = [
    {"type": "function", "function": {"name": "look", "parameters": SCHEMA}},
    {"type": "function", "function": {"name": "wait"}},
]
MESSAGE_TOOLS: Any = [
    {"name": "look", "input_schema": SCHEMA},
    {"name": "wait", "input_schema": {"type": "object"}},
]
USER: Any = [{"role": "user", "content": "hello there"}]
WORK = [
    {"kind": "reasoning", "text": "Le né, le 月, the 🌊 of it."},
    {"kind": "text", "text": "I look “twice”."},
    {"kind": "tool", "name": "look", "arguments": {"where": "né 日.txt", "quote": 'a "b" \\ c\n'}},
    {"kind": "tool", "name": "wait", "arguments": {}},
]
SCRIPTS = [
    {"name": "work", "turns": [{"parts": WORK}, {"parts": [{"text": "It says: {result}"}]}]},
    {"name": "hidden", "turns": [{"parts": [{"kind": "redacted", "text": "mine alone"}, {"text": "done"}]}]},
    {"name": "no", "turns": [{"parts": [{"kind": "refusal", "text": "I cannot."}]}]},
    {"name": "halt", "turns": [{"parts": [{"text": "one two"}], "finish": "sequence"}]},
    {"name": "free", "turns": [{"parts": [{"kind": "tool", "name": "patch", "text": "+é\n-x"}]}]},
]
NAMES = ["work", "hidden", "no", "halt"]


@pytest.fixture
async def simulator(simulate: Simulate) -> RunningSimulator:
    return await simulate(scripts=SCRIPTS, tokens_per_event=2)


@pytest.fixture
async def chats(simulator: RunningSimulator) -> AsyncIterator[openai.AsyncOpenAI]:
    quick = openai.DefaultAsyncHttpxClient(verify=False)
    url = simulator.base_url("p") + "/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0, http_client=quick) as made:
        yield made


@pytest.fixture
async def messages(simulator: RunningSimulator) -> AsyncIterator[anthropic.AsyncAnthropic]:
    quick = anthropic.DefaultAsyncHttpxClient(verify=False)
    url = simulator.base_url("p")
    async with anthropic.AsyncAnthropic(base_url=url, api_key="x", max_retries=0, http_client=quick) as made:
        yield made


def alike(simulator: RunningSimulator) -> bool:
    first, second = simulator.engines["p"].log.lines
    return (first.tokens, first.cost_nanousd, first.billed) == (second.tokens, second.cost_nanousd, True)


def told(value: Any) -> Any:
    """What an SDK object says, less ids (each request has its own), what is absent, and what the SDK adds."""
    if isinstance(value, list):
        return [told(entry) for entry in value]
    if not isinstance(value, dict):
        return value
    added = {"id", "parsed", "parsed_arguments", "parsed_output"} | (
        {"index"} if "function" in value else set()
    )
    return {
        name: told(entry) for name, entry in value.items() if name not in added and entry not in (None, "")
    }


@pytest.mark.parametrize("script", NAMES)
async def test_a_gathered_chat_stream_is_the_whole_answer(
    chats: openai.AsyncOpenAI, simulator: RunningSimulator, script: str
) -> None:
    asked: Any = {
        "model": "m",
        "messages": USER,
        "tools": CHAT_TOOLS,
        "stop": ["three"],
        "logprobs": True,
        "extra_headers": {"x-sim-script": script},
    }
    whole = await chats.chat.completions.create(**asked)
    async with chats.chat.completions.stream(**asked, stream_options={"include_usage": True}) as stream:
        gathered = await stream.get_final_completion()
    assert told(gathered.choices[0].to_dict()) == told(whole.choices[0].to_dict())
    assert gathered.usage == whole.usage
    assert alike(simulator)


@pytest.mark.parametrize("script", NAMES)
async def test_a_gathered_message_stream_is_the_whole_answer(
    messages: anthropic.AsyncAnthropic, simulator: RunningSimulator, script: str
) -> None:
    asked: Any = {
        "model": "m",
        "messages": USER,
        "tools": MESSAGE_TOOLS,
        "max_tokens": 500,
        "stop_sequences": ["three"],
        "extra_headers": {"x-sim-script": script},
    }
    whole = await messages.messages.create(**asked)
    async with messages.messages.stream(**asked) as stream:
        gathered = await stream.get_final_message()
    assert told(gathered.to_dict()) == told(whole.to_dict())
    assert alike(simulator)


async def test_ends_are_told_in_the_words_of_each_vendor() -> None:
    finishes: dict[str, tuple[str, str, str | None]] = {}
    for script in NAMES:
        bench = Bench(scripts=SCRIPTS)
        first = await bench.ask(chat(tools=CHAT_TOOLS), x_sim_script=script)
        asked = message(tools=MESSAGE_TOOLS, stop_sequences=["three"])
        second = orjson.loads(body_of(await bench.ask(asked, MESSAGES, x_sim_script=script)))
        finish = orjson.loads(body_of(first))["choices"][0]["finish_reason"]
        finishes[script] = (finish, second["stop_reason"], second["stop_sequence"])
    assert finishes == {
        "work": ("tool_calls", "tool_use", None),
        "hidden": ("stop", "end_turn", None),
        "no": ("stop", "refusal", None),
        "halt": ("stop", "stop_sequence", "three"),
    }


@pytest.mark.parametrize("path", [CHAT, MESSAGES])
async def test_a_script_goes_on_with_the_results_of_its_calls_and_ends_in_seeded_words(path: str) -> None:
    bench = Bench(models=[{**MODEL, "script": "work"}], scripts=SCRIPTS)
    conversation = list(USER)
    said: list[str] = []
    first: list[str] = []
    for turn in range(3):
        if path == CHAT:
            answer = orjson.loads(
                body_of(await bench.ask({**chat(tools=CHAT_TOOLS), "messages": conversation}))
            )
            reply = answer["choices"][0]["message"]
            said.append(reply["content"])
            calls = [call["id"] for call in reply.get("tool_calls", [])]
            results = [{"role": "tool", "tool_call_id": call, "content": f"{call} is ok"} for call in calls]
        else:
            body = {**message(tools=MESSAGE_TOOLS), "messages": conversation}
            answer = orjson.loads(body_of(await bench.ask(body, MESSAGES)))
            reply = {"role": "assistant", "content": answer["content"]}
            said += [block["text"] for block in answer["content"] if block["type"] == "text"]
            calls = [block["id"] for block in answer["content"] if block["type"] == "tool_use"]
            blocks = [
                {
                    "type": "tool_result",
                    "tool_use_id": call,
                    "content": [{"type": "text", "text": f"{call} is ok"}],
                }
                for call in calls
            ]
            results = [{"role": "user", "content": blocks}]
        if turn == 0:
            first = calls
        conversation += [reply, *(results if calls else USER)]
    assert len(set(first)) == 2
    assert said[:2] == ["I look “twice”.", f"It says: {first[-1]} is ok"]
    assert len(said) == 3
    assert "says" not in said[2]


async def test_a_script_is_for_requests_that_offer_what_it_calls() -> None:
    bench = Bench(models=[{**MODEL, "script": "work"}], scripts=SCRIPTS)
    answer = orjson.loads(body_of(await bench.ask(chat())))
    assert answer["choices"][0]["finish_reason"] == "stop"
    assert "look" not in answer["choices"][0]["message"]["content"]
    assert status_of(await bench.ask(chat(), x_sim_script="nobody")) == 400


async def test_a_tool_that_takes_free_text_gets_it_in_a_chat_too() -> None:
    bench = Bench(scripts=SCRIPTS)
    tools = [{"type": "custom", "custom": {"name": "patch"}}]
    answer = orjson.loads(body_of(await bench.ask(chat(tools=tools), x_sim_script="free")))
    (call,) = answer["choices"][0]["message"]["tool_calls"]
    assert call["custom"] == {"name": "patch", "input": "+é\n-x"}
    streamed = body_of(await bench.ask(chat(tools=tools, stream=True), x_sim_script="free"))
    deltas = [orjson.loads(line)["choices"] for line in streamed.split(b"data: ")[1:-1]]
    calls = [choice["delta"].get("tool_calls", []) for (choice,) in deltas]
    assert "".join(call["custom"].get("input", "") for (call,) in filter(None, calls)) == "+é\n-x"


@pytest.mark.parametrize(
    ("cap", "shown"),
    [
        (1, ["thinking"]),
        (9, ["thinking", "text"]),
        (14, ["thinking", "text"]),
        (500, ["thinking", "text", "tool_use", "tool_use"]),
    ],
)
async def test_a_cap_cuts_a_script_short_and_never_a_letter_or_a_call(cap: int, shown: list[str]) -> None:
    bench = Bench(scripts=SCRIPTS)
    body = message(tools=MESSAGE_TOOLS) | {"max_tokens": cap}
    answer = orjson.loads(body_of(await bench.ask(body, MESSAGES, x_sim_script="work")))
    assert [block["type"] for block in answer["content"]] == shown
    assert answer["stop_reason"] == ("tool_use" if len(shown) == 4 else "max_tokens")
    assert answer["usage"]["output_tokens"] == last_line(bench).tokens.output <= cap


async def test_a_seed_calls_tools_with_arguments_that_fit_their_schema() -> None:
    model = {
        **MODEL,
        "tool_share": 0.7,
        "parallel_calls": 3,
        "reasoning_tokens": 5,
        "reasoning_visible": True,
    }
    bench = Bench(models=[model])
    counts = set()
    for number in range(30):
        body = chat(f"ask {number}", tools=CHAT_TOOLS)
        reply = orjson.loads(body_of(await bench.ask(body)))["choices"][0]["message"]
        again = orjson.loads(body_of(await bench.ask({**body, "user": "x"})))["choices"][0]["message"]
        calls = reply.get("tool_calls", [])
        assert [call["function"] for call in again.get("tool_calls", [])] == [
            call["function"] for call in calls
        ]
        counts.add(len(calls))
        for call in calls:
            arguments = orjson.loads(call["function"]["arguments"])
            if call["function"]["name"] == "look":
                assert arguments["kind"] in ("ebb", "flood")
                assert len(arguments["where"]) >= 3
                assert arguments["deep"] in (None, 2, 3, 4)
                assert arguments["one"] == 1
                assert 1 <= len(arguments["some"]) <= 3
                assert arguments["next"] is None or arguments["next"]["at"] <= 3
    assert counts == {0, 1, 2, 3}


@pytest.mark.parametrize(
    ("path", "fields"),
    [
        (CHAT, {"response_format": {"type": "json_schema", "json_schema": {"name": "a", "schema": SCHEMA}}}),
        (MESSAGES, {"output_config": {"format": {"type": "json_schema", "schema": SCHEMA}}}),
        (MESSAGES, {"output_format": {"type": "json_schema", "schema": SCHEMA}}),
    ],
)
async def test_structured_answers_fit_their_schema(path: str, fields: dict[str, Any]) -> None:
    made = message(**fields) if path == MESSAGES else chat(**fields)
    answer = orjson.loads(body_of(await Bench().ask(made, path)))
    text = answer["content"][0]["text"] if path == MESSAGES else answer["choices"][0]["message"]["content"]
    assert orjson.loads(text)["kind"] in ("ebb", "flood")
    anything = await Bench().ask(chat(response_format={"type": "json_object"}))
    assert orjson.loads(orjson.loads(body_of(anything))["choices"][0]["message"]["content"]) == {}


async def test_a_schema_that_holds_itself_ends() -> None:
    tree = {
        "type": "object",
        "properties": {"child": {"$ref": "#"}, "kids": {"type": "array", "items": {"$ref": "#"}}},
    }
    schema = {"type": "json_schema", "json_schema": {"name": "a", "schema": tree}}
    answer = orjson.loads(body_of(await Bench().ask(chat(response_format=schema))))
    assert "child" in orjson.loads(answer["choices"][0]["message"]["content"])


def call(identity: str) -> dict[str, Any]:
    return {"id": identity, "type": "function", "function": {"name": "look", "arguments": "{}"}}


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ([{"role": "assistant", "tool_calls": [call("a")]}], "did not have response messages: a"),
        ([{"role": "assistant", "tool_calls": [call("a")]}, *USER], "did not have response messages: a"),
        *(
            (
                [
                    {"role": "assistant", "tool_calls": [call("a")]},
                    {"role": role, "content": "x"},
                    {"role": "tool", "tool_call_id": "a", "content": "x"},
                ],
                "did not have response messages: a",
            )
            for role in ("user", "developer", "assistant")
        ),
        (
            [{"role": "tool", "tool_call_id": "a", "content": "x"}],
            "must be a response to a preceeding message",
        ),
    ],
)
async def test_a_chat_with_calls_and_results_that_do_not_pair_is_refused(more: Any, said: str) -> None:
    bench = Bench()
    actions = await bench.ask({**chat(), "messages": [*USER, *more]})
    assert status_of(actions) == 400
    assert said in orjson.loads(body_of(actions))["error"]["message"]


@pytest.mark.parametrize(
    ("blocks", "answered", "said"),
    [
        (
            [{"type": "tool_use", "id": "a", "input": {}}],
            "x",
            "without `tool_result` blocks immediately after: a",
        ),
        (
            [{"type": "tool_use", "id": "a", "input": {}}] * 2,
            [{"type": "tool_result", "tool_use_id": "a"}],
            "messages.1.content.1: `tool_use` ids must be unique",
        ),
        (
            [{"type": "tool_use", "id": "a", "input": {}}],
            [{"type": "text", "text": "x"}, {"type": "tool_result", "tool_use_id": "a"}],
            "messages.1.content.0: `tool_use` ids were found without `tool_result` blocks immediately after: a",
        ),
        ("x", [{"type": "tool_result", "tool_use_id": "a"}], "unexpected `tool_use_id` found"),
        (
            "x",
            [{"type": "text", "text": " \n"}],
            "messages.2: text content blocks must contain non-whitespace",
        ),
        ("\n", "x", "messages.1: text content blocks must contain non-whitespace text"),
        (
            [{"type": "thinking", "thinking": "x", "signature": "y"}],
            "x",
            "Invalid `signature` in `thinking` block",
        ),
        ([{"type": "redacted_thinking", "data": "?"}], "x", "Invalid `data` in `redacted_thinking` block"),
        ([{"type": "redacted_thinking", "data": "eHh4"}], "x", "Invalid `data` in `redacted_thinking` block"),
    ],
)
async def test_a_message_history_that_the_vendor_would_not_take_is_refused(
    blocks: Any, answered: Any, said: str
) -> None:
    turns = [{"role": "assistant", "content": blocks}, {"role": "user", "content": answered}]
    actions = await Bench().ask({**message(), "messages": [*USER, *turns]}, MESSAGES)
    assert status_of(actions) == 400
    assert said in orjson.loads(body_of(actions))["error"]["message"]


@pytest.mark.parametrize("script", ["work", "hidden"])
async def test_thoughts_are_taken_back_byte_for_byte_and_by_their_own_provider_only(script: str) -> None:
    own, other = Bench(scripts=SCRIPTS), Bench(scripts=SCRIPTS, seed=8)
    tools = {"tools": MESSAGE_TOOLS}
    content = orjson.loads(body_of(await own.ask(message(**tools), MESSAGES, x_sim_script=script)))["content"]
    results = [
        {"type": "tool_result", "tool_use_id": block["id"], "content": "x"}
        for block in content
        if block["type"] == "tool_use"
    ]
    turns = [*USER, {"role": "assistant", "content": content}, {"role": "user", "content": results or "x"}]
    back = {**message(**tools), "messages": turns}
    assert status_of(await own.ask(back, MESSAGES)) == 200
    assert status_of(await other.ask(back, MESSAGES)) == 400
    changed = orjson.loads(
        orjson.dumps(back).replace(b"of it.", b"of  it.").replace(b'"data":"', b'"data":"A')
    )
    assert status_of(await own.ask(changed, MESSAGES)) == 400


@pytest.mark.parametrize("stream", [True, False])
async def test_thoughts_that_are_to_be_omitted_are_signed_billed_and_taken_back(
    messages: anthropic.AsyncAnthropic, simulator: RunningSimulator, stream: bool
) -> None:
    asked: Any = {"model": "m", "max_tokens": 500, "thinking": {"type": "adaptive", "display": "omitted"}}
    steer: Any = {"tools": MESSAGE_TOOLS, "extra_headers": {"x-sim-script": "work"}}
    if stream:
        async with messages.messages.stream(**asked, **steer, messages=USER) as events:
            answer: Any = await events.get_final_message()
    else:
        answer = await messages.messages.create(**asked, **steer, messages=USER)
    thought = answer.content[0]
    assert (thought.type, thought.thinking) == ("thinking", "")
    assert len(thought.signature) > 40
    assert answer.usage.output_tokens == simulator.engines["p"].log.lines[0].tokens.output
    assert simulator.engines["p"].log.lines[0].tokens.reasoning > 0
    back = {"role": "assistant", "content": [block.to_dict() for block in answer.content[:2]]}
    turns: Any = [*USER, back, *USER]
    await messages.messages.create(**asked, messages=turns)
    back["content"][0]["signature"] = "x" + thought.signature[1:]
    with pytest.raises(anthropic.BadRequestError, match="Invalid `signature`"):
        await messages.messages.create(**asked, messages=turns)


@pytest.mark.parametrize("field", ["reasoning", "reasoning_content", "none"])
async def test_shown_thoughts_have_the_field_that_the_provider_gives_them(field: str) -> None:
    bench = Bench(scripts=SCRIPTS, reasoning_field=field)
    body = chat(tools=CHAT_TOOLS)
    reply = orjson.loads(body_of(await bench.ask(body, x_sim_script="work")))["choices"][0]["message"]
    streamed = body_of(await bench.ask({**body, "stream": True}, x_sim_script="work"))
    thoughts = {name for name in reply if name.startswith("reasoning")}
    assert thoughts == ({field} if field != "none" else set())
    assert (b'"reasoning' in streamed) == (field != "none")
    first, second = bench.engine.log.lines
    assert first.tokens == second.tokens


async def test_a_provider_refuses_the_fields_and_roles_it_does_not_know() -> None:
    bench = Bench(refused_fields=["stream_options"], refused_roles=["developer"])
    assert status_of(await bench.ask(chat())) == 200
    for body in (
        chat(stream_options={}),
        {**chat(), "messages": [{"role": "developer", "content": "x"}, *USER]},
    ):
        actions = await bench.ask(body)
        assert status_of(actions) == 400
        assert orjson.loads(body_of(actions))["error"]["param"] in ("stream_options", "messages")


async def test_the_newest_requests_are_kept_without_their_keys_where_asked_for() -> None:
    bench = Bench(keep_requests=2)
    for number in range(3):
        await bench.ask(chat(str(number)), authorization="Bearer sk-secret", openai_beta="x")
    kept = list(bench.engine.log.requests)
    assert [orjson.loads(entry["body"])["messages"][0]["content"] for entry in kept] == ["1", "2"]
    assert kept[0]["headers"] == [("openai-beta", "x")]
    assert kept[0]["path"] == CHAT
    assert not Bench().engine.log.requests
