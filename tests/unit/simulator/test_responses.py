"""The responses dialect: the SDK's accumulated stream is the whole answer, history is checked, answers are kept."""

from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import orjson
import pytest
from openai.types.responses import Response

from tidegate.simulator.refusal import Refusal
from tidegate.simulator.server import RunningSimulator
from tidegate.simulator.stored import MAX_ANSWERS, AnswerStore
from unit.simulator.conftest import Simulate
from unit.simulator.rig import MODEL, Bench, body_of, last_line, status_of

RESPONSES = "/v1/responses"
LOOK: Any = {
    "type": "function",
    "name": "look",
    "parameters": {"type": "object", "properties": {}},
    "strict": None,
}
PATCH: Any = {"type": "custom", "name": "patch"}
TURN = [
    {"kind": "reasoning", "text": "I think of 月 and é."},
    {"kind": "text", "text": "I look, then I patch 🌊."},
    {"kind": "tool", "name": "look", "arguments": {"where": "né/日.txt", "deep": [1, {"a": None}]}},
    {"kind": "tool", "name": "patch", "text": "*** Begin\n+é\n*** End"},
    {"kind": "redacted", "text": "nobody reads this"},
]
SCRIPTS = [
    {"name": "work", "turns": [{"parts": TURN}, {"parts": [{"text": "It says: {result}"}]}]},
    {"name": "no", "turns": [{"parts": [{"kind": "refusal", "text": "I cannot help with that."}]}]},
    {"name": "cut", "turns": [{"parts": [{"text": "some words that go on"}], "finish": "filter"}]},
]
FORM: Any = {
    "format": {
        "type": "json_schema",
        "name": "tide",
        "strict": True,
        "schema": {
            "type": "object",
            "properties": {
                "where": {"type": "string"},
                "high": {"type": "array", "items": {"type": "number"}},
            },
            "required": ["where", "high"],
            "additionalProperties": False,
        },
    }
}
SHOWN: Any = {"include": ["reasoning.encrypted_content"], "reasoning": {"summary": "auto"}}


def asked(**fields: Any) -> dict[str, Any]:
    return {"model": "m", "input": "hello there", **fields}


async def answered(bench: Bench, body: dict[str, Any], **headers: str) -> dict[str, Any]:
    actions = await bench.ask(body, RESPONSES, **headers)
    assert status_of(actions) == 200, body_of(actions)
    return orjson.loads(body_of(actions))


async def refused(bench: Bench, body: dict[str, Any]) -> tuple[int, dict[str, Any]]:
    actions = await bench.ask(body, RESPONSES)
    return status_of(actions), orjson.loads(body_of(actions))["error"]


@pytest.fixture
async def simulator(simulate: Simulate) -> RunningSimulator:
    return await simulate(scripts=SCRIPTS, api_key="sk-sim", tokens_per_event=2)


@pytest.fixture
async def client(simulator: RunningSimulator) -> AsyncIterator[openai.AsyncOpenAI]:
    quick = openai.DefaultAsyncHttpxClient(verify=False)
    url = simulator.base_url("p") + "/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="sk-sim", max_retries=0, http_client=quick) as made:
        yield made


def shown(response: Response) -> dict[str, Any]:
    """A response less what differs between two requests: the ids that its number makes, and its time."""
    fields = response.model_dump(mode="json", exclude={"id", "created_at"})
    for item in fields["output"]:
        for name in ("id", "call_id", "encrypted_content", "parsed_arguments"):
            item.pop(name, None)
        for part in item.get("content") or []:
            part.pop("parsed", None)
    return fields


@pytest.mark.parametrize("more", [{}, SHOWN], ids=["hidden thoughts", "shown thoughts"])
@pytest.mark.parametrize("script", ["work", "no", "cut", "form"])
async def test_what_the_sdk_gathers_from_a_stream_is_the_whole_answer(
    client: openai.AsyncOpenAI, simulator: RunningSimulator, script: str, more: Any
) -> None:
    steer = {"x-sim-script": script} if script != "form" else {"x-sim-reasoning-tokens": "6"}
    more = {**more, "text": FORM} if script == "form" else more
    tools = [LOOK, PATCH]
    whole = await client.responses.create(model="m", input="hello", tools=tools, extra_headers=steer, **more)
    async with client.responses.stream(
        model="m", input="hello", tools=tools, extra_headers=steer, **more
    ) as stream:
        events = [event async for event in stream]
    kinds = [event.type for event in events]
    # The SDK's own getter knows no incomplete answers.
    gathered: Any = events[-1]
    assert shown(gathered.response) == shown(whole)
    assert kinds[:2] == ["response.created", "response.in_progress"]
    assert kinds[-1] == ("response.incomplete" if script == "cut" else "response.completed")
    first, second = simulator.engines["p"].log.lines
    assert (first.tokens, first.cost_nanousd) == (second.tokens, second.cost_nanousd)
    assert whole.usage is not None
    assert whole.usage.output_tokens == first.tokens.output
    assert whole.usage.output_tokens_details.reasoning_tokens == first.tokens.reasoning


async def test_the_deltas_of_every_item_join_to_what_its_end_says(client: openai.AsyncOpenAI) -> None:
    stream = await client.responses.create(
        model="m",
        input="hello",
        tools=[LOOK, PATCH],
        stream=True,
        extra_headers={"x-sim-script": "work"},
        **SHOWN,
    )
    texts: dict[tuple[str, str], str] = {}
    numbers, ends = [], 0
    async for event in stream:
        fields = event.model_dump()
        numbers.append(fields["sequence_number"])
        kind, _, step = event.type.rpartition(".")
        if step == "delta":
            key = (kind, fields["item_id"])
            texts[key] = texts.get(key, "") + fields["delta"]
        elif (kind, fields.get("item_id")) in texts and step == "done":
            field = {"function_call_arguments": "arguments", "custom_tool_call_input": "input"}
            name = field.get(kind.removeprefix("response."), "text")
            assert texts[(kind, fields["item_id"])] == fields[name]
            ends += 1
    assert ends == len(texts) == 4
    assert numbers == list(range(len(numbers)))


async def test_an_answer_goes_on_from_one_that_was_kept_and_pays_for_its_whole_conversation(
    client: openai.AsyncOpenAI, simulator: RunningSimulator
) -> None:
    steer = {"x-sim-script": "work"}
    first = await client.responses.create(
        model="m", input="hello there", tools=[LOOK, PATCH], extra_headers=steer, **SHOWN
    )
    outputs: Any = [
        {"type": f"{call.type}_output", "call_id": call.call_id, "output": f"{call.name} done"}
        for call in first.output
        if call.type in ("function_call", "custom_tool_call")
    ]
    second = await client.responses.create(
        model="m",
        input=outputs,
        previous_response_id=first.id,
        tools=[LOOK, PATCH],
        extra_headers=steer,
    )
    assert second.output_text == "It says: patch done"
    kept, spelt = simulator.engines["p"].log.lines[-1].tokens.prompt, first.to_dict()["output"]
    again: Any = [{"role": "user", "content": "hello there"}, *spelt, *outputs]  # type: ignore[misc]
    await client.responses.create(
        model="m", input=again, tools=[LOOK, PATCH], store=False, extra_headers=steer
    )
    assert simulator.engines["p"].log.lines[-1].tokens.prompt == kept


async def test_an_answer_that_was_not_to_be_kept_is_not_found() -> None:
    bench = Bench()
    first = await answered(bench, asked(store=False))
    status, error = await refused(bench, asked(previous_response_id=first["id"]))
    assert (status, error["code"]) == (400, "previous_response_not_found")


@pytest.mark.parametrize(
    ("items", "said"),
    [
        (
            [{"type": "function_call", "call_id": "a", "name": "look", "arguments": "{}"}],
            "No tool output found",
        ),
        ([{"type": "function_call_output", "call_id": "a", "output": "x"}], "No tool call found"),
        ([{"role": "assistant", "id": "msg_1", "content": "x"}] * 2, "Duplicate item found with id msg_1"),
        ([{"role": "assistant", "id": "toolu_1", "content": "x"}], "Expected an ID that begins with 'msg'"),
        ([{"type": "reasoning", "id": "rs_1", "summary": []}], "Items are not persisted"),
        ([{"type": "item_reference", "id": "msg_1"}], "Items are not persisted"),
        (
            [{"type": "reasoning", "id": "rs_1", "summary": [], "encrypted_content": "gAAAAAB"}],
            "could not be verified",
        ),
        ([{"role": "robot", "content": "x"}], "role must be one of"),
        ([{"role": "user", "content": 5}], "must be a string or a list"),
        ([{"role": "user", "content": ["x"]}], "part without a type"),
        ([{"content": "x"}], "needs a type"),
        ([], "must be provided"),
    ],
)
async def test_a_history_that_the_vendor_would_not_take_is_refused(items: Any, said: str) -> None:
    bench = Bench()
    status, error = await refused(bench, asked(input=items))
    assert status == 400
    assert said in error["message"]
    assert not last_line(bench).billed


async def test_thoughts_come_back_to_their_own_provider_only() -> None:
    own, other = Bench(), Bench(seed=8)
    first = await answered(own, asked(**SHOWN), x_sim_reasoning_tokens="9", x_sim_output_tokens="20")
    back = asked(
        input=[{"role": "user", "content": "hi"}, *first["output"], {"role": "user", "content": "on"}]
    )
    assert first["output"][0]["type"] == "reasoning"
    assert (await answered(own, back))["status"] == "completed"
    status, error = await refused(other, back)
    assert (status, error["code"]) == (400, "invalid_encrypted_content")


async def test_images_files_and_unknown_items_count_a_fixed_size() -> None:
    bench = Bench()
    parts = [
        {"type": "input_text", "text": "abcd"},
        {"type": "input_image", "image_url": "data:image/png;base64,AA=="},
        {"type": "input_file", "file_id": "f"},
    ]
    await answered(bench, asked(input=[{"role": "user", "content": parts}, {"type": "web_search_call"}]))
    assert last_line(bench).tokens.prompt == 1 + 3 * 256


async def test_a_cap_ends_the_answer_as_incomplete() -> None:
    answer = await answered(Bench(), asked(max_output_tokens=5), x_sim_output_tokens="9")
    assert (answer["status"], answer["incomplete_details"]) == ("incomplete", {"reason": "max_output_tokens"})
    assert answer["usage"]["output_tokens"] == 5


async def test_a_web_socket_is_answered_with_426_where_the_vendor_offers_one(
    simulator: RunningSimulator, http: httpx.AsyncClient
) -> None:
    upgrade = {"connection": "Upgrade", "upgrade": "websocket", "sec-websocket-key": "x"}
    base = simulator.base_url("p")
    assert (await http.get(base + RESPONSES + "?a=b", headers=upgrade)).status_code == 426
    assert (await http.get(base + "/v1/models", headers=upgrade)).status_code == 400


async def test_a_client_may_ask_whether_anybody_is_there(
    simulator: RunningSimulator, http: httpx.AsyncClient
) -> None:
    base = simulator.base_url("p")
    answers = [await http.head(base + path) for path in ("/", "/nowhere")]
    assert [answer.status_code for answer in answers] == [200, 404]


async def test_errors_inside_a_stream_are_events_of_the_dialect() -> None:
    actions = await Bench().ask(asked(stream=True), RESPONSES, x_sim_fault="error_200;after_tokens=3")
    last = body_of(actions).rstrip().rpartition(b"\n\n")[2]
    assert last.startswith(b"event: error\ndata: ")
    assert orjson.loads(last.partition(b"data: ")[2])["type"] == "error"


async def test_prices_of_the_cache_hold_for_responses_too() -> None:
    bench = Bench(models=[MODEL], cache={"min_block_tokens": 8, "block_tokens": 8})
    await answered(bench, asked(input="s" * 64))
    answer = await answered(bench, asked(input="s" * 64))
    assert answer["usage"]["input_tokens_details"]["cached_tokens"] == 16
    assert last_line(bench).tokens.cache_read == 16


def test_the_oldest_answers_are_forgotten_first() -> None:
    store = AnswerStore()
    for number in range(MAX_ANSWERS + 1):
        store.keep(str(number), [])
    assert store.items(str(MAX_ANSWERS)) == []
    with pytest.raises(Refusal, match="not found"):
        store.items("0")


@pytest.mark.parametrize("fields", [{"include": "x"}, {"include": [1]}, {"stream": 5}, {"tools": [5]}])
async def test_fields_of_the_wrong_type_are_refused(fields: dict[str, Any]) -> None:
    assert (await refused(Bench(), asked(**fields)))[0] == 400
