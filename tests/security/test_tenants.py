"""Where a request goes and what it may use follows from config and key alone."""

from __future__ import annotations

import asyncio
import itertools
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.rig import KEY as RIG_KEY
from support.rig import UPSTREAM_KEY, provider, running_rig
from support.served import document
from tidegate.gateway.credentials import key_digest
from tidegate.runtime.demo.toml import dumps
from tidegate.runtime.settings import parse_settings
from tidegate.simulator.loading import load
from tidegate.simulator.server import start

KEYS = {
    "alpha": "tg_shared-prefix-000000000000000000-alpha",
    "beta": "tg_shared-prefix-000000000000000000-beta",
}
ROUTES = {"chat": "alpha", "messages": "beta"}
PATHS = {"chat": "/v1/chat/completions", "messages": "/v1/messages"}


def body_of(route: str) -> dict[str, Any]:
    return {"model": route, "max_tokens": 16, "messages": [{"role": "user", "content": "hi"}]}


async def test_nothing_a_client_sends_changes_where_its_request_goes(tmp_path: Path) -> None:
    dialed: list[bytes] = []

    async def caught(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        dialed.append(await reader.read(1024))
        writer.close()

    trap = await asyncio.start_server(caught, "127.0.0.1", 0)
    place = f"127.0.0.1:{trap.sockets[0].getsockname()[1]}"
    url = f"http://{place}/v1"
    fields = ("api_base", "base_url", "host", "url", "endpoint", "custom_host", "proxy", "target", "provider")
    headers = (
        "x-forwarded-host", "x-forwarded-server", "forwarded", "x-host", "x-base-url", "x-original-url",
        "x-rewrite-url", "x-portkey-custom-host", "helicone-target-url", "custom-host", "x-api-base",
    )  # fmt: skip
    try:
        async with running_rig(tmp_path) as rig, httpx.AsyncClient(timeout=30, trust_env=False) as client:
            for route, path in PATHS.items():
                key = {"authorization": f"Bearer {RIG_KEY}"}
                tries: list[dict[str, Any]] = [
                    *({"json": {**body_of(route), name: url}, "headers": key} for name in fields),
                    *({"json": body_of(route), "headers": {**key, name: url}} for name in headers),
                    *({"json": body_of(route), "headers": key, "params": {name: url}} for name in fields),
                    {"json": body_of(route), "headers": {**key, "host": place}},
                ]
                for one in tries:
                    answer = await client.post(rig.url + path, **one)
                    assert answer.status_code == 200, (one, answer.text)
                    assert answer.headers["x-tidegate-target"].startswith("one-")
        assert dialed == []
    finally:
        trap.close()
        await trap.wait_closed()


def two_tenants(ports: Mapping[str, int], folder: Path) -> Any:
    tables = {
        "tenants": [{"id": tenant, "routes": [route]} for route, tenant in ROUTES.items()],
        "keys": [
            {"id": f"k-{tenant}", "tenant": tenant, "digest": key_digest(KEYS[tenant])} for tenant in KEYS
        ],
        "data_dir": str(folder / "data"),
    }
    return parse_settings(dumps({**document(ports), **tables}))


async def test_a_tenant_uses_and_sees_its_own_routes_only(tmp_path: Path) -> None:
    upstream = await start(load({"providers": [provider("real", api_key=UPSTREAM_KEY)]}))
    try:
        settings = two_tenants(upstream.ports, tmp_path)
        async with (
            running_rig(tmp_path, settings=settings) as rig,
            httpx.AsyncClient(timeout=30, trust_env=False) as client,
        ):
            for tenant, (route, owner) in itertools.product(KEYS, ROUTES.items()):
                key = {"authorization": f"Bearer {KEYS[tenant]}"}
                answer = await client.post(rig.url + PATHS[route], json=body_of(route), headers=key)
                assert answer.status_code == (200 if tenant == owner else 403), (tenant, route, answer.text)
                assert (answer.status_code == 200) or answer.json()["error"]["code"] == "route_forbidden"
                models = await client.get(f"{rig.url}/v1/models", headers=key)
                assert [each["id"] for each in models.json()["data"]] == [
                    name for name, its in ROUTES.items() if its == tenant
                ]
            admitted = [envelope.tenant for envelope, _ in rig.events("RequestAdmitted")]
            assert sorted(filter(None, admitted)) == ["alpha", "beta"]
    finally:
        await upstream.stop()


@pytest.mark.parametrize(
    "key",
    [
        RIG_KEY[:-1], RIG_KEY + "x", RIG_KEY.upper(), RIG_KEY[:12], "tg_", "'", "' OR '1'='1", "k1", "k1' --",
        "'; DROP TABLE keys; --", '" OR ""="', "*", "%", key_digest(RIG_KEY), f"{RIG_KEY},{RIG_KEY}",
        f"{RIG_KEY}' OR 'a'='a",
    ],
)  # fmt: skip
@pytest.mark.parametrize("header", ["authorization", "x-api-key"])
async def test_what_is_not_a_whole_key_is_no_key(tmp_path: Path, key: str, header: str) -> None:
    async with running_rig(tmp_path) as rig, httpx.AsyncClient(timeout=30, trust_env=False) as client:
        sent = {header: f"Bearer {key}" if header == "authorization" else key}
        for route, path in PATHS.items():
            assert (await client.post(rig.url + path, json=body_of(route), headers=sent)).status_code == 401
        assert (await client.get(f"{rig.url}/v1/models", headers=sent)).status_code == 401
        assert rig.events() == []
        assert rig.invoice() == 0
