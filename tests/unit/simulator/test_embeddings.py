"""Embeddings: seeded unit vectors that are the same in both encodings, billed by their input."""

import math
from typing import Any

import openai
import orjson
import pytest

from unit.simulator.conftest import Simulate
from unit.simulator.rig import Bench, body_of, last_line, status_of

EMBEDDINGS = "/v1/embeddings"


async def embedded(bench: Bench, given: Any, **fields: Any) -> dict[str, Any]:
    actions = await bench.ask({"model": "m", "input": given, **fields}, EMBEDDINGS)
    return {"status": status_of(actions), **orjson.loads(body_of(actions))}


async def test_the_sdk_reads_the_same_vectors_as_numbers_and_as_base64(simulate: Simulate) -> None:
    simulator = await simulate()
    quick = openai.DefaultAsyncHttpxClient(verify=False)
    url = simulator.base_url("p") + "/v1"
    async with openai.AsyncOpenAI(base_url=url, api_key="x", max_retries=0, http_client=quick) as client:
        packed = await client.embeddings.create(model="m", input=["the sea", "né"])
        plain = await client.embeddings.create(model="m", input=["the sea", "né"], encoding_format="float")
    vectors = [entry.embedding for entry in plain.data]
    assert [list(entry.embedding) for entry in packed.data] == vectors
    assert [math.hypot(*vector) for vector in vectors] == pytest.approx([1, 1])
    assert vectors[0] != vectors[1]
    assert packed.usage.prompt_tokens == packed.usage.total_tokens == 3
    line = simulator.engines["p"].log.lines[0]
    assert (line.dialect, line.tokens.prompt, line.tokens.output) == ("embeddings", 3, 0)
    assert line.cost_nanousd == 3 * 3000


async def test_token_numbers_count_one_each_and_dimensions_can_be_fewer() -> None:
    bench = Bench()
    answer = await embedded(bench, [[1, 2, 3], [4]], dimensions=3)
    assert [len(entry["embedding"]) for entry in answer["data"]] == [3, 3]
    assert last_line(bench).tokens.prompt == 4
    assert [len(entry["embedding"]) for entry in (await embedded(bench, [1, 2, 3]))["data"]] == [16]


@pytest.mark.parametrize(
    ("given", "fields"),
    [
        ("", {}),
        ([], {}),
        ([""], {}),
        (5, {}),
        ([None], {}),
        ("x", {"encoding_format": "int8"}),
        ("x", {"dimensions": 17}),
    ],
)
async def test_what_cannot_be_embedded_is_refused(given: Any, fields: Any) -> None:
    assert (await embedded(Bench(), given, **fields))["status"] == 400


async def test_faults_strike_embeddings_as_they_strike_answers() -> None:
    bench = Bench()
    actions = await bench.ask({"model": "m!503", "input": "x"}, EMBEDDINGS)
    assert (status_of(actions), last_line(bench).outcome) == (503, "refused")
