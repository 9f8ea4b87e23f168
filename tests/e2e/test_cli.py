"""Every command that reads or switches, as a process, beside `tidegate serve` after mixed traffic."""

from __future__ import annotations

import asyncio
import itertools
import re
from collections.abc import AsyncIterator
from typing import Any

import httpx
import openai
import pytest
import pytest_asyncio
from anthropic import AsyncAnthropic
from openai import AsyncOpenAI

from support.fleet import until
from support.rig import KEY, provider
from support.served import INSTANCES, Served, serving
from tidegate.analytics.reports import REPORTS
from tidegate.gateway.credentials import key_digest
from tidegate.runtime.admin_token import admin_token

pytestmark = [pytest.mark.slow, pytest.mark.asyncio(loop_scope="module")]
MESSAGES: Any = [{"role": "user", "content": "Why is the sky blue? " * 20}]
PER_DIALECT = 10
FAILING = provider("one", faults=[{"kind": "hidden_usage", "every_n": 7}, {"kind": "503", "every_n": 4}])


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def served() -> AsyncIterator[Served]:
    async with serving([FAILING, provider("two")]) as found:
        await drive(found)
        yield found


async def drive(served: Served) -> None:
    """Whole and streamed answers of both dialects; some fail over, one breaks, one hides its usage."""
    async with (
        AsyncOpenAI(base_url=f"{served.url}/v1", api_key=KEY, max_retries=0) as chat,
        AsyncAnthropic(base_url=served.url, api_key=KEY, max_retries=0) as messages,
    ):
        for _, streamed in zip(range(PER_DIALECT), itertools.cycle((False, True)), strict=False):
            if streamed:
                stream = await chat.chat.completions.create(model="chat", messages=MESSAGES, stream=True)
                assert [chunk async for chunk in stream]
                async with messages.messages.stream(
                    model="messages", max_tokens=64, messages=MESSAGES
                ) as events:
                    assert (await events.get_final_message()).content
            else:
                whole = await chat.chat.completions.create(model="chat", messages=MESSAGES)
                assert whole.choices[0].message.content
                answer = await messages.messages.create(model="messages", max_tokens=64, messages=MESSAGES)
                assert answer.content
        with pytest.raises(openai.InternalServerError):
            await chat.chat.completions.create(
                model="chat", messages=MESSAGES, extra_headers={"x-sim-fault": "billed_no_bytes"}
            )
    await served.settled()


async def ask(served: Served) -> httpx.Response:
    async with httpx.AsyncClient(trust_env=False, timeout=30) as client:
        answer = await client.post(
            f"{served.url}/v1/chat/completions",
            json={"model": "chat", "messages": MESSAGES},
            headers={"authorization": f"Bearer {KEY}"},
        )
    assert answer.status_code == 200, answer.text
    return answer


async def first_target(served: Served, request: str) -> str:
    """Where a decision sent its request; a provider that failed may have left the answer to another."""
    attempts = f"SELECT target FROM v_attempts WHERE request = '{request}' ORDER BY attempt_index"
    found: list[list[str]] = []

    async def projected() -> bool:
        found[:] = await served.rows(attempts)
        return bool(found)

    await until(projected, "the request's attempts in the read model")
    return found[0][0]


async def test_status_and_metrics_name_every_process(served: Served) -> None:
    found = (await served.run("status", "--json")).json()
    assert found.keys() == INSTANCES
    assert found["gw-0"]["requests_completed_total"] >= 2 * PER_DIALECT
    answer = await served.admin("GET", "/metrics")
    assert answer.status_code == 200
    for instance in INSTANCES:
        assert f'instance="{instance}"' in answer.text
    for name in ("request_overhead", "request_duration", "time_to_first_token"):
        assert f'tidegate_{name}_seconds_bucket{{instance="gw-0",le="+Inf"}}' in answer.text
    assert (await served.admin("GET", "/admin/status")).json()["processes"].keys() == INSTANCES
    shown = (await served.run("status")).out
    assert re.search(
        r"request_duration_seconds +mean \S+, half ≤ \S+, 99 % ≤ \S+, of \d+$", shown, re.MULTILINE
    )
    assert "bucket" not in shown


async def test_a_decision_is_explained_in_five_lines_or_as_json(served: Served) -> None:
    answer = await ask(served)
    request = answer.headers["x-tidegate-request-id"]
    await served.settled()
    ran = await served.run("explain", request)
    assert ran.code == 0, ran
    heads = [line.split(":")[0] for line in ran.out.splitlines()]
    assert heads == ["target", "price", "runner-up", "rejected", "read"]
    first = await first_target(served, request)
    assert ran.out.startswith(f"target: {first} ")
    assert max(map(len, ran.out.splitlines())) <= 80
    whole = await served.run("explain", request, "--wide")
    assert [line.split(":")[0] for line in whole.out.splitlines()] == heads
    assert "seed" in whole.out
    explained = (await served.run("explain", request, "--json")).json()
    assert explained["chosen"]["target"] == first
    missing = await served.run("explain", "nothing-of-this-name", "--json")
    assert (missing.code, missing.out) == (1, "")


async def test_sql_counts_what_the_providers_served(served: Served) -> None:
    await served.settled()
    records = [
        record for name in served.provider_ports for record in (await served.sim(name, "log"))["records"]
    ]

    query = "SELECT count(*) AS n FROM v_ledger"

    async def projected() -> bool:
        return await served.rows(query) == [[len(records)]]

    await until(projected, f"{len(records)} attempts in the read model")
    found = (await served.run("sql", query, "--json")).json()
    assert (found["columns"], found["rows"]) == (["n"], [[len(records)]])
    refused = await served.run("sql", "DELETE FROM v_ledger", "--json")
    assert refused.code == 2
    assert refused.out == ""


@pytest.mark.parametrize("name", REPORTS)
async def test_a_report_has_sections_for_people_and_programs(served: Served, name: str) -> None:
    request = (await ask(served)).headers["x-tidegate-request-id"]
    await served.settled()

    async def projected() -> bool:
        return await served.rows(f"SELECT count(*) FROM v_requests WHERE request = '{request}'") == [[1]]

    await until(projected, "the request in the read model")
    narrow = {"request": [request], "requests": ["--tenant", "acme"], "usage": ["--tenant", "acme"]}.get(
        name, []
    )
    found = (await served.run("report", name, *narrow, "--json")).json()
    assert found["report"] == name
    assert [section["query"] for section in found["sections"]] == list(REPORTS[name])
    assert all(section["columns"] for section in found["sections"])
    shown = await served.run("report", name, *narrow, env={"COLUMNS": "80"})
    assert shown.code == 0, shown
    assert max(map(len, shown.out.splitlines())) <= 80
    wide = await served.run("report", name, *narrow, "--wide", env={"COLUMNS": "80"})
    rows = sum(len(section["rows"]) for section in found["sections"])
    filled = sum(bool(section["rows"]) for section in found["sections"])
    cut = sum(section["truncated"] for section in found["sections"])  # each says so in a line of its own
    lines = rows + filled + cut + 2 * len(found["sections"]) - 1  # a title, a heading, a line between
    for text in (shown.out, wide.out):
        assert "…" not in text
        assert len(text.splitlines()) == lines


async def test_replay_of_every_decision_is_identical(served: Served) -> None:
    await served.settled()
    found = (await served.run("replay", "verify", "--json")).json()
    assert found["identical"] == found["decisions"] >= 2 * PER_DIALECT + 1
    assert (found["clean"], found["examples"]) == (True, [])


async def test_reconciling_makes_ledger_and_bills_equal_and_again_writes_nothing(served: Served) -> None:
    await served.settled()
    first = (await served.run("reconcile", "--json")).json()
    assert first["balanced"]
    assert first["unreported"]
    assert all(each["basis"] != "reported" for each in first["unreported"])
    again = (await served.run("reconcile", "--json")).json()
    assert (again["balanced"], again["corrections"]) == (True, [])
    bills = [(await served.sim(name, "invoice"))["total_nanousd"] for name in served.provider_ports]
    assert again["before"]["nanousd"] == sum(bills) == again["billed_nanousd"] > 0
    priced = (await served.run("reprice", "--json")).json()
    assert (priced["corrections"], priced["before"]) == ([], priced["after"])
    assert priced["after"]["unpriced"] == 0
    shown = await served.run("reconcile")
    assert shown.code == 0
    assert all(each["attempt"] in shown.out for each in again["unreported"])


async def test_reconciling_balances_while_traffic_goes_on(served: Served) -> None:
    enough = asyncio.Event()

    async def traffic() -> None:
        while not enough.is_set():
            await ask(served)

    clients = [asyncio.ensure_future(traffic()) for _ in range(3)]
    try:
        for _ in range(2):
            found = (await served.run("reconcile", "--json")).json()
            assert found["balanced"]
            assert (found["open_lines"], found["unknown_lines"]) == ([], [])
    finally:
        enough.set()
        await asyncio.gather(*clients)
    await served.settled()
    assert (await served.run("reconcile", "--json")).json()["left_out"] == []
    last = (await served.run("reconcile", "--json")).json()
    assert (last["balanced"], last["corrections"], last["left_out"]) == (True, [], [])


async def test_a_rebuild_finds_the_same_and_is_taken(served: Served) -> None:
    await served.settled()
    found = (await served.run("rebuild", "--json")).json()
    assert found["swap"]["swapped"] is True
    assert found["built"]["rows"] > 0


async def test_the_config_is_checked_and_described_and_keys_are_made(served: Served) -> None:
    checked = (await served.run("config", "check", "--json")).json()
    assert (checked["ok"], checked["mistakes"]) == (True, [])
    assert checked["digest"] == served.machine.settings.routing().digest()
    lost = await served.run("config", "check", "--json", env={"SIM_KEY": ""})
    assert "SIM_KEY is not set" in lost.json(code=1)["mistakes"][0]
    schema = (await served.run("config", "schema", config=False)).json()
    assert "Settings" in schema["$defs"]
    assert (await served.run("config", "schema", "--json", config=False)).json() == schema
    for arguments in (("check",), ("check", "--json")):
        for path in ("no-such.toml", "."):
            missing = await served.run("config", *arguments, "-c", str(served.folder / path), config=False)
            assert (missing.code, missing.out) == (2, "")
            assert "cannot be read" in missing.err
    made = (await served.run("keys", "new", "k9", "acme", "--json", config=False)).json()
    assert made["digest"] == key_digest(made["key"])
    other = (await served.run("keys", "new", "k9", "acme", "--json", config=False)).json()
    assert made["key"] != other["key"]


async def test_a_target_disabled_through_admin_is_rejected_from_then_on_until_it_is_enabled(
    served: Served,
) -> None:
    answer = await served.admin("POST", "/admin/targets/one-openai/disable")
    assert answer.json() == {"target": "one-openai", "state": "disabled"}

    async def elsewhere() -> bool:
        request = (await ask(served)).headers["x-tidegate-request-id"]
        await served.settled()
        explained = (await served.run("explain", request, "--json")).json()
        return ("one-openai", "disabled") in {
            (each["target"], each["reason"]) for each in explained["rejected"]
        }

    await until(elsewhere, "a decision that rejects the disabled target")
    assert (await served.run("targets", "enable", "one-openai", "--json")).json()["state"] == "enabled"

    async def back() -> bool:
        return bool((await ask(served)).headers["x-tidegate-target"] == "one-openai")

    await until(back, "a decision for the target that is enabled again")


async def test_admin_wants_its_token(served: Served) -> None:
    for method, path in (
        ("GET", "/metrics"),
        ("GET", "/admin/status"),
        ("POST", "/admin/config"),
        ("POST", "/admin/targets/one-openai/disable"),
    ):
        for token in ("wrong", KEY, admin_token(served.machine)[:-1]):
            answer = await served.admin(method, path, token)
            assert answer.status_code == 401, (method, path)
    assert (await served.admin("GET", "/healthz", "none")).status_code == 200
    assert (await served.admin("POST", "/admin/targets/nobody/disable")).status_code == 404


async def test_term_ends_everything_in_order_and_leaves_nothing_unsent() -> None:
    async with serving([provider("one")]) as served:
        for _ in range(5):
            await ask(served)
        assert await served.stop() == 0, served.process.failure("did not end well")
        assert served.unsent() == {}
        found = (await served.run("replay", "verify", "--json")).json()
        assert found["identical"] == found["decisions"] == 5
