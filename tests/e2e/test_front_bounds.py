"""What a client sends never breaks the gateway or another tenant: every bound, fault and switch is told in its dialect."""

from __future__ import annotations

import asyncio
import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from support.rig import KEY, Rig, provider, running_rig, settings_toml
from tidegate.gateway.credentials import key_digest
from tidegate.runtime.settings import parse_settings

OTHER_KEY = "tg_other-key-for-tests-only-00000000000"
PATHS = {"openai": "/v1/chat/completions", "anthropic": "/v1/messages"}
ROUTES = {"openai": "chat", "anthropic": "messages"}
INT64 = 2**63 - 1


async def post(rig: Rig, dialect: str, content: bytes, key: str = KEY, **headers: str) -> httpx.Response:
    async with httpx.AsyncClient(timeout=30) as client:
        return await client.post(
            rig.url + PATHS[dialect], content=content, headers={"authorization": f"Bearer {key}", **headers}
        )


def ask(dialect: str, **fields: Any) -> bytes:
    return msgspec.json.encode(
        {
            "model": ROUTES[dialect],
            "max_tokens": 50,
            "messages": [{"role": "user", "content": "hi"}],
            **fields,
        }
    )


def check_refused(answer: httpx.Response, dialect: str, status: int, code: str) -> None:
    assert answer.status_code == status, answer.text
    parsed = answer.json()
    assert parsed["error"]["code"] == code
    assert (parsed.get("type") == "error") == (dialect == "anthropic")
    assert answer.headers["x-tidegate-request-id"]


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
async def test_a_compressed_body_is_refused_by_its_coding_and_a_plain_one_is_not(
    tmp_path: Path, dialect: str
) -> None:
    async with running_rig(tmp_path) as rig:
        for coding, sent in (("gzip", gzip.compress(ask(dialect))), ("br", b"\x1b\x1d\x00\xf8\x25")):
            answer = await post(rig, dialect, sent, **{"content-encoding": coding})
            check_refused(answer, dialect, 415, "body_invalid")
            assert answer.json()["error"]["type"] == "invalid_request_error"
            assert f"`content-encoding: {coding}` is not supported" in answer.json()["error"]["message"]
        for coding in ("identity", "gzip"):  # what can be read is read, whatever its head says
            answer = await post(rig, dialect, ask(dialect), **{"content-encoding": coding})
            assert answer.status_code == 200, answer.text
        answer = await post(rig, dialect, b"\x1f\x8b", **{"content-encoding": "identity"})
        check_refused(answer, dialect, 400, "body_invalid")


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
async def test_odd_bodies_are_refused_by_name_and_recorded(tmp_path: Path, dialect: str) -> None:
    odd = [
        ask(dialect)[:-1] + b',"tools":' + b"[" * 200_000,
        b'{"model":"x","messages":' + b'[{"a":' * 100_000,
        ask(dialect, max_tokens=10**26),
        ask(dialect, max_tokens=2**31),
        ask(dialect, max_tokens=-1),
        ask(dialect, max_tokens="many"),
    ]
    async with running_rig(tmp_path) as rig:
        for content in odd:
            check_refused(await post(rig, dialect, content), dialect, 400, "body_invalid")
        refused = await rig.wait_event("RequestRefused", len(odd))
        assert [data.code for data in refused] == ["body_invalid"] * len(odd)
        assert rig.data("AttemptStarted") == []


@pytest.mark.parametrize("value", [[], {}, 5, "high", None, "none"])
async def test_a_field_of_an_unexpected_kind_is_no_fault_of_the_gateway(tmp_path: Path, value: Any) -> None:
    async with running_rig(tmp_path) as rig:
        answer = await post(rig, "openai", ask("openai", reasoning_effort=value, metadata=value))
        assert answer.status_code == 200, answer.text


async def test_every_answer_names_its_request(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig, httpx.AsyncClient(timeout=30, base_url=rig.url) as client:
        good = {"authorization": f"Bearer {KEY}"}
        answers = [
            await client.get("/healthz"),
            await client.get("/v1/models", headers=good),
            await client.get("/v1/models"),
            await client.get("/nowhere"),
            await client.post("/v1/messages", content=b"{}", headers={"x-api-key": "wrong"}),
            await client.post("/v1/messages", content=b"{}", headers={**good, "expect": "something"}),
        ]
        assert [answer.status_code for answer in answers] == [200, 200, 401, 404, 401, 417]
        ids = [answer.headers["x-tidegate-request-id"] for answer in answers]
        assert len(set(ids)) == len(ids)


async def test_a_bound_beyond_all_reason_reserves_no_more_than_a_model_can_write(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        await post(rig, "openai", ask("openai", max_tokens=2**31 - 1))
        await rig.wait_event("RequestFinished")
        for _, data in rig.events():
            assert all(abs(number) <= INT64 for number in numbers_in(msgspec.to_builtins(data)))
        reserved = [started.reserve_output_tokens for started in rig.data("AttemptStarted")]
        assert reserved
        assert max(reserved) <= 262_144


def numbers_in(value: Any) -> list[int]:
    if isinstance(value, dict):
        return [number for part in value.values() for number in numbers_in(part)]
    if isinstance(value, list | tuple):
        return [number for part in value for number in numbers_in(part)]
    return [value] if isinstance(value, int) else []


OTHER_TENANT = (
    f'[[tenants]]\nid = "beta"\n[[keys]]\nid = "k2"\ntenant = "beta"\ndigest = "{key_digest(OTHER_KEY)}"\n'
)


async def test_tenants_who_say_the_same_share_no_session(tmp_path: Path) -> None:
    async with running_rig(tmp_path, targets=OTHER_TENANT) as rig:
        hints: list[dict[str, str]] = [{}, {"x-tidegate-session": "same"}]
        for hint in hints:
            for key in (KEY, OTHER_KEY):
                assert (await post(rig, "openai", ask("openai"), key, **hint)).status_code == 200
        await rig.wait_event("RequestFinished", 4)
        sessions = [envelope.session for envelope, _ in rig.events("RequestAdmitted")]
        assert len(set(sessions)) == 4
        memories = [data.candidates[0].local.session_prompt_tokens for data in rig.data("DecisionMade")]
        assert memories == [None] * 4


async def test_conversations_that_begin_with_the_same_long_preamble_are_two_sessions(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        for last in "ab":
            message = {"role": "user", "content": "preamble " * 2_000 + last}
            assert (await post(rig, "openai", ask("openai", messages=[message]))).status_code == 200
        await rig.wait_event("RequestFinished", 2)
        assert len({envelope.session for envelope, _ in rig.events("RequestAdmitted")}) == 2


async def test_requests_beyond_the_limit_are_turned_away_before_their_body_is_read(tmp_path: Path) -> None:
    async with running_rig(tmp_path, gateway="max_in_flight = 2") as rig:
        port = rig.role.port
        head = (
            b"POST /v1/chat/completions HTTP/1.1\r\nHost: h\r\nAuthorization: Bearer %b\r\nContent-Length: 9\r\n\r\n{"
            % KEY.encode()
        )
        waiting = [await asyncio.open_connection("127.0.0.1", port) for _ in range(2)]
        for _, writer in waiting:
            writer.write(head)
        async with asyncio.timeout(30):
            while rig.in_flight() < 2:
                await asyncio.sleep(0.005)
        check_refused(await post(rig, "openai", ask("openai")), "openai", 503, "overloaded")
        for _, writer in waiting:
            writer.close()
        async with asyncio.timeout(30):
            while rig.in_flight():
                await asyncio.sleep(0.005)
        assert (await post(rig, "openai", ask("openai"))).status_code == 200


async def test_a_journal_that_fails_while_the_body_comes_is_told_as_such(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        rig.break_journal()
        for dialect in PATHS:
            check_refused(await post(rig, dialect, ask(dialect)), dialect, 503, "journal_unwritable")


async def test_why_the_journal_takes_nothing_is_for_the_log_and_no_client_sees_our_folders(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    logged: list[dict[str, Any]] = []

    class Logger:
        def __getattr__(self, level: str) -> Callable[..., None]:
            return lambda event, **facts: logged.append({"level": level, "event": event, **facts})

    monkeypatch.setattr("tidegate.runtime.roles.gateway.logger", Logger)
    async with running_rig(tmp_path) as rig:
        rig.break_journal()
        told = [(await post(rig, dialect, ask(dialect))).text for dialect in PATHS]
        async with httpx.AsyncClient() as client:
            ready = await client.get(f"{rig.url}/readyz")
        assert ready.status_code == 503
        assert ready.json() == {"status": "not ready", "why": "the journal takes no requests"}
        for text in told:
            assert "cannot record requests now" in text
            assert str(tmp_path) not in text
            assert "broken by the test" not in text
        async with asyncio.timeout(30):
            while not (reasons := [each for each in logged if each["level"] == "error"]):
                await asyncio.sleep(0.01)
        (reason,) = reasons
        assert reason["event"] == "journal takes no requests"
        assert str(rig.machine.journal_dir("gw-0")) in reason["why"]


async def test_a_config_switch_under_load_fails_no_request(tmp_path: Path) -> None:
    """Targets come and go between decision and serving: view and serving change in one step."""
    async with running_rig(tmp_path, [provider("one"), provider("two")]) as rig:
        ports = rig.simulator.ports
        one, both = {"one": ports["one"]}, {"two": ports["two"], "one": ports["one"]}
        configs = [parse_settings(settings_toml(chosen)).routing() for chosen in (both, one)]
        seen: list[tuple[int, str]] = []
        stop = asyncio.Event()

        async def client() -> None:
            while not stop.is_set():
                answer = await post(rig, "openai", ask("openai"))
                seen.append((answer.status_code, answer.headers.get("x-tidegate-target", "")))

        clients = [asyncio.ensure_future(client()) for _ in range(3)]
        for turn in range(6):
            routing = configs[turn % 2]
            await rig.publish(routing)
            async with asyncio.timeout(30):
                while rig.serving_digest() != routing.digest():
                    await asyncio.sleep(0.01)
                begun = len(seen) + len(clients)  # those may still be of the config before
                while len(seen) <= begun:
                    await asyncio.sleep(0.01)
        stop.set()
        await asyncio.gather(*clients)
        assert {status for status, _ in seen} == {200}
        assert {target for _, target in seen} >= {"one-openai", "two-openai"}


async def test_a_config_this_machine_cannot_serve_leaves_the_old_one_in_force(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        before = rig.serving_digest()
        text = settings_toml(rig.simulator.ports).replace("env:SIM_KEY", "env:NOT_HERE")
        await rig.publish(parse_settings(text).routing())
        async with asyncio.timeout(30):
            while rig.config_problem() is None:
                await asyncio.sleep(0.01)
        assert "NOT_HERE" in str(rig.config_problem())
        assert rig.serving_digest() == before
        assert (await post(rig, "openai", ask("openai"))).status_code == 200


async def test_a_chain_stops_before_it_would_pass_the_routes_cost_cap(tmp_path: Path) -> None:
    """The first try bills and gives nothing; a second one would pass what the route allows for all tries."""
    billed = provider("one", faults=[{"kind": "billed_no_bytes"}])
    async with running_rig(
        tmp_path, [billed, provider("two")], route_options='max_cost_nanousd = "0.008"'
    ) as rig:
        answer = await post(rig, "openai", ask("openai", max_tokens=500))
        assert answer.status_code == 502
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.attempts, finished.outcome) == (1, "failed")


async def test_what_a_provider_says_of_its_limits_is_recorded(tmp_path: Path) -> None:
    window = {"name": "minute", "kind": "fixed", "duration_s": 60, "limit": 100, "unit": "requests"}
    async with running_rig(tmp_path, [provider("one", windows=[window])]) as rig:
        for _ in range(3):
            assert (await post(rig, "openai", ask("openai"))).status_code == 200
        await rig.wait_event("RequestFinished", 3)
        (seen,) = rig.data("QuotaObserved")  # once a second is enough
        assert (seen.target, seen.pool, seen.scope, seen.limit) == (
            "one-openai",
            "one-openai",
            "requests",
            100,
        )
        assert seen.remaining == 99
