"""`GET /v1/models`: the routes a key may use, with what all and any of their targets can, as both vendors tell it."""

from __future__ import annotations

from pathlib import Path

import anthropic
import httpx
import openai
import pytest
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from support.fake_provider import answer, gateway_over, route, target
from support.rig import KEY, Rig
from tidegate.events.types import TargetId
from tidegate.gateway.credentials import key_digest
from tidegate.runtime.local_switch import Order, throw

NARROW = "tg_narrow-key-for-tests-only-0000000000"
BIG = "context_window = 200000\nmax_output_tokens = 64000"
SMALL = "context_window = 128000\nmax_output_tokens = 8000\nvision = false\nreasoning = false"


def config(url: str) -> str:
    return "".join(
        [
            target("big", url, "anthropic", BIG),
            target("small", url, "openai", f'also_speaks = ["anthropic"]\n{SMALL}'),
            target("odd", url, "openai", "tools = false"),
            target("off", url, "openai", "enabled = false\ntools = false"),
            route("both", "big", "small", "off"),
            route("odd/one", "odd", "small"),
            route("closed", "off"),
            f'[[keys]]\nid = "k2"\ntenant = "acme"\nroutes = ["odd/one"]\ndigest = "{key_digest(NARROW)}"\n',
        ]
    )


def openai_of(rig: Rig, key: str = KEY) -> AsyncOpenAI:
    return AsyncOpenAI(base_url=f"{rig.url}/v1", api_key=key, max_retries=0)


def anthropic_of(rig: Rig, key: str = KEY) -> AsyncAnthropic:
    return AsyncAnthropic(base_url=rig.url, api_key=key, max_retries=0)


async def test_both_sdks_list_the_routes_with_what_their_targets_share(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, config, lambda call: answer({})) as (rig, _):
        async with openai_of(rig) as client:
            listed = [model async for model in client.models.list()]
            assert [model.id for model in listed] == ["both", "odd/one"]
            extra = listed[0].model_extra
            assert extra is not None
            assert extra["tidegate"]["capabilities"] == {
                "context_window": {"all": 128_000, "any": 200_000},
                "max_output_tokens": {"all": 8_000, "any": 64_000},
                "vision": {"all": False, "any": True},
                "documents": {"all": True, "any": True},
                "tools": {"all": True, "any": True},
                "reasoning": {"all": False, "any": True},
                "input_modalities": {"all": ["document", "text"], "any": ["document", "image", "text"]},
                "dialects": {"all": ["anthropic"], "any": ["anthropic", "openai"]},
            }
            odd = (await client.models.retrieve("odd/one")).model_extra
            assert odd is not None
            can = odd["tidegate"]["capabilities"]
            assert can["context_window"] == {"all": None, "any": 128_000}
            assert can["tools"] == {"all": False, "any": True}
        async with anthropic_of(rig) as other:
            page = await other.models.list(limit=1)
            assert (page.has_more, page.first_id) == (True, "both")
            assert [model.id async for model in page] == ["both", "odd/one"]
            before = await other.models.list(before_id="odd/one")
            assert ([model.id for model in before.data], before.has_more) == (["both"], False)
            assert (await other.models.list(after_id="odd/one")).data == []
            both = await other.models.retrieve("both")
            assert (both.max_input_tokens, both.max_tokens, both.lifecycle) == (128_000, 8_000, "active")


async def test_a_route_whose_targets_are_switched_off_is_not_listed_until_one_is_back(tmp_path: Path) -> None:
    """What counts is what a request would find: the switch is thrown, and asked for, on the same machine."""

    async def names(rig: Rig) -> list[str]:
        async with openai_of(rig) as client:
            return [model.id async for model in client.models.list()]

    async def set_to(rig: Rig, name: str, disabled: bool) -> None:
        order = Order(target=TargetId(name), disabled=disabled, actor="ops", reason="trial")
        await throw(rig.machine, order)

    async with gateway_over(tmp_path, config, lambda call: answer({})) as (rig, _):
        await set_to(rig, "big", disabled=True)
        assert await names(rig) == ["both", "odd/one"]
        await set_to(rig, "small", disabled=True)
        assert await names(rig) == ["odd/one"]
        await set_to(rig, "off", disabled=False)
        assert await names(rig) == ["both", "odd/one", "closed"]


async def test_a_key_sees_only_its_own_routes(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, config, lambda call: answer({})) as (rig, _):
        async with openai_of(rig, NARROW) as client:
            assert [model.id async for model in client.models.list()] == ["odd/one"]
            with pytest.raises(openai.NotFoundError) as missing:
                await client.models.retrieve("both")
            assert missing.value.code == "route_unknown"
        async with anthropic_of(rig, NARROW) as other:
            with pytest.raises(anthropic.NotFoundError):
                await other.models.retrieve("closed")
        async with anthropic_of(rig, "wrong") as stranger:
            with pytest.raises(anthropic.AuthenticationError):
                await stranger.models.list()


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "x", "99999"])
async def test_a_page_of_no_size_is_refused(tmp_path: Path, limit: str) -> None:
    async with (
        gateway_over(tmp_path, config, lambda call: answer({})) as (rig, _),
        httpx.AsyncClient() as client,
    ):
        got = await client.get(f"{rig.url}/v1/models?limit={limit}", headers={"x-api-key": KEY})
        assert got.status_code == 400
        assert got.json()["type"] == "error"
