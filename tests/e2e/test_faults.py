"""Every fault of the simulator: the client always learns how it ended, money is settled once, nothing is glued."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import httpx
import pytest

from support.rig import KEY, Rig, provider, running_rig
from tidegate.simulator.faults import CATALOGUE, LISTENER_MODES

BEFORE_CONTENT = [
    "close_no_bytes", "billed_no_bytes", "garbage", "garbage_body", "rst", "error_200", "compressed",
    "header_stall", "first_token_stall", "refuse", "connect_stall", "accept_stall",
    *map(str, (400, 402, 404, 408, 413, 422, 429, 500, 502, 503, 504, 529)), "401",
]  # fmt: skip
STALLED_HEADS = {"header_stall", "first_token_stall", "accept_stall"}
AFTER_CONTENT = [
    "cut",
    "missing_terminal",
    "mid_stream_stall",
    "truncated_json",
    "error_200;after_tokens=5",
    "rst;body_byte=2500",
]
HARMLESS = ["wrong_model", "slow_drip;bytes=40;interval_ms=1"]
"""Answers that reach the client whole."""
PARKED = {
    "400;code=content_policy_violation": (False, 403, "policy_denied"),
    "403": (True, 502, "upstream_unknown"),  # a permission error without words may mean anything
}
"""Answers that end the request, as (in Anthropic's dialect, status, code): no other target gets what one denied."""
ELSEWHERE = {"malformed_event", "hidden_usage"}
"""Tested by name below and in the crash suites."""
STALLS = "connect_s = 0.4\nheader_s = 0.4\nfirst_token_s = 0.6\nidle_s = 0.6"


def body(*, stream: bool, anthropic: bool = False) -> dict[str, Any]:
    request: dict[str, Any] = {
        "model": "messages" if anthropic else "chat",
        "messages": [{"role": "user", "content": "Tell me about tides. " * 30}],
        "stream": stream,
    }
    if anthropic:
        request["max_tokens"] = 200
    return request


async def ask(rig: Rig, request: dict[str, Any], **headers: str) -> httpx.Response:
    path = "/v1/messages" if request["model"] == "messages" else "/v1/chat/completions"
    async with httpx.AsyncClient(timeout=30) as client:
        return await client.post(
            rig.url + path, json=request, headers={"authorization": f"Bearer {KEY}", **headers}
        )


def faulty(kind: str) -> dict[str, Any]:
    name, _, params = kind.partition(";")
    if name in LISTENER_MODES:
        return provider("one", mode=name)
    fault: dict[str, Any] = {"kind": name}
    if params:
        fault["params"] = dict(pair.split("=") for pair in params.split(";"))
    return provider("one", faults=[fault])


def check_settled_once(rig: Rig) -> None:
    started = [data.attempt for data in rig.data("AttemptStarted")]
    settled = [data.attempt for data in rig.data("UsageSettled")]
    assert sorted(started) == sorted(settled)
    assert len(set(settled)) == len(settled)


def check_ledger(rig: Rig) -> None:
    """What was reported is exact to the nano-dollar; what was not is listed by its basis."""
    lines: dict[str, int] = {}
    for bill in rig.simulator.invoices().values():
        for line in bill["lines"]:
            lines[line["attempt"]] = lines.get(line["attempt"], 0) + line["cost_nanousd"]
    for data in rig.data("UsageSettled"):
        if data.basis == "reported":
            assert data.cost_nanousd == lines.get(data.attempt, 0), data
        elif data.basis == "none":
            assert lines.get(data.attempt, 0) == 0, data


@pytest.mark.parametrize("stream", [False, True])
@pytest.mark.parametrize("anthropic", [False, True])
async def test_a_fault_before_content_fails_over_and_the_client_notices_nothing(
    tmp_path: Path, *, stream: bool, anthropic: bool
) -> None:
    for kind in BEFORE_CONTENT:
        if kind in {*STALLED_HEADS, "compressed"} and not stream:
            continue  # a whole answer may take as long as the route allows, and is read though compressed
        providers = [faulty(kind), provider("two")]
        async with running_rig(tmp_path / kind, providers, deadlines=STALLS) as rig:
            answer = await ask(rig, body(stream=stream, anthropic=anthropic))
            assert answer.status_code == 200, (kind, answer.text)
            dialect = "anthropic" if anthropic else "openai"
            assert answer.headers["x-tidegate-target"] == f"two-{dialect}", kind
            assert answer.headers["x-tidegate-attempts"] == "2", kind
            if stream:
                assert answer.text.count("[DONE]") + answer.text.count("event: message_stop") == 1, kind
            (finished,) = await rig.wait_event("RequestFinished")
            assert (finished.outcome, finished.attempts) == ("completed", 2)
            check_settled_once(rig)
            check_ledger(rig)


def test_every_fault_of_the_catalogue_is_tried() -> None:
    tried = {kind.partition(";")[0] for kind in (*BEFORE_CONTENT, *AFTER_CONTENT, *HARMLESS, *PARKED)}
    assert tried | ELSEWHERE == set(CATALOGUE) | set(LISTENER_MODES)


@pytest.mark.parametrize("kind", HARMLESS)
@pytest.mark.parametrize("stream", [False, True])
async def test_an_odd_but_whole_answer_reaches_the_client_and_is_paid_as_billed(
    tmp_path: Path, kind: str, *, stream: bool
) -> None:
    async with running_rig(tmp_path, [faulty(kind), provider("two")]) as rig:
        answer = await ask(rig, body(stream=stream), **{"x-sim-output-tokens": "12"})
        assert answer.status_code == 200
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts) == ("completed", 1)
        (settled,) = rig.data("UsageSettled")
        assert settled.model == ("sim-substitute" if kind == "wrong_model" else "m")
        check_ledger(rig)
        assert rig.ledger() == rig.invoice() > 0


@pytest.mark.parametrize("kind", PARKED)
async def test_what_one_target_denied_is_asked_of_no_other(tmp_path: Path, kind: str) -> None:
    anthropic, status, code = PARKED[kind]
    async with running_rig(tmp_path, [faulty(kind), provider("two")]) as rig:
        answer = await ask(rig, body(stream=False, anthropic=anthropic))
        assert answer.status_code == status, answer.text
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts, finished.code) == ("failed", 1, code)


@pytest.mark.parametrize("kind", AFTER_CONTENT)
@pytest.mark.parametrize("anthropic", [False, True])
async def test_a_stream_that_breaks_after_content_ends_with_one_error_event_and_no_success_marker(
    tmp_path: Path, kind: str, *, anthropic: bool
) -> None:
    # Tokens come one by one: what arrives together with the fault was not forwarded yet, and fails over.
    paced = {**faulty(kind), "latency": {"ttft_ms": 1, "tokens_per_s": 40}}
    async with running_rig(tmp_path, [paced, provider("two")], deadlines=STALLS) as rig:
        answer = await ask(rig, body(stream=True, anthropic=anthropic), **{"x-sim-output-tokens": "40"})
        assert answer.status_code == 200
        assert "[DONE]" not in answer.text
        assert "message_stop" not in answer.text
        assert answer.text.count('"code":"stream_truncated"') == 1
        assert answer.text.endswith("\n\n")
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts) == ("truncated", 1)
        check_settled_once(rig)
        check_ledger(rig)


async def test_content_that_arrives_with_the_error_event_still_reaches_the_client(tmp_path: Path) -> None:
    """Everything before the provider's error event is forwarded, however the reads fall."""
    paced = {**faulty("error_200;after_tokens=8"), "latency": {"ttft_ms": 1, "tokens_per_s": 40}}
    async with running_rig(tmp_path, [paced, provider("two")]) as rig:
        answer = await ask(rig, body(stream=True), **{"x-sim-output-tokens": "40"})
        (line,) = [line for bill in rig.simulator.invoices().values() for line in bill["lines"]]
        assert answer.text.count('"delta":{"content":') >= line["tokens"]["output"] - 1


@pytest.mark.parametrize("anthropic", [False, True])
async def test_a_malformed_event_in_the_body_reaches_the_client_untouched(
    tmp_path: Path, *, anthropic: bool
) -> None:
    paced = {**faulty("malformed_event"), "latency": {"ttft_ms": 1, "tokens_per_s": 40}}
    async with running_rig(tmp_path, [paced]) as rig:
        answer = await ask(rig, body(stream=True, anthropic=anthropic), **{"x-sim-output-tokens": "12"})
        assert answer.text.count("[DONE]") + answer.text.count("event: message_stop") == 1
        await rig.wait_event("RequestFinished")
        check_ledger(rig)
        assert rig.ledger() == rig.invoice()


@pytest.mark.parametrize(
    ("kind", "status", "code"),
    [
        ("503", 502, "upstream_unavailable"),
        ("429", 503, "upstream_rate_limited"),
        ("401", 502, "upstream_auth"),
        ("422", 422, "request_incompatible"),
        ("413", 413, "request_incompatible"),
        ("close_no_bytes", 502, "upstream_unreachable"),
    ],
)
@pytest.mark.parametrize("anthropic", [False, True])
async def test_when_every_target_fails_the_client_is_told_in_its_dialect(
    tmp_path: Path, kind: str, status: int, code: str, *, anthropic: bool
) -> None:
    providers = [faulty(kind), {**faulty(kind), "id": "two"}]
    async with running_rig(tmp_path, providers) as rig:
        answer = await ask(rig, body(stream=False, anthropic=anthropic))
        assert answer.status_code == status, answer.text
        parsed = answer.json()
        assert parsed["error"]["code"] == code
        assert (parsed.get("type") == "error") == anthropic
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.code) == ("failed", code)
        check_settled_once(rig)
        check_ledger(rig)
        assert rig.invoice() == 0
        assert {data.basis for data in rig.data("UsageSettled")} == {
            "estimated" if kind == "close_no_bytes" else "none"
        }


async def test_a_client_that_leaves_mid_stream_cancels_upstream_and_settles_what_was_used(
    tmp_path: Path,
) -> None:
    slow = provider("one", latency={"ttft_ms": 1, "tokens_per_s": 40})
    async with running_rig(tmp_path, [slow]) as rig:
        async with httpx.AsyncClient(timeout=30) as client:
            request = client.stream(
                "POST",
                rig.url + "/v1/chat/completions",
                json=body(stream=True),
                headers={"authorization": f"Bearer {KEY}", "x-sim-output-tokens": "5000"},
            )
            async with request as answer:
                async for _ in answer.aiter_bytes():
                    break
        (finished,) = await rig.wait_event("RequestFinished")
        assert finished.outcome == "cancelled"
        (settled,) = rig.data("UsageSettled")
        assert (settled.basis, settled.outcome, settled.evidence) == ("estimated", "cancelled", False)
        assert settled.tokens.output is None
        assert settled.cost_nanousd > 0
        async with asyncio.timeout(30):
            while rig.invoice() == 0:  # the provider saw the connection go and billed what it had made
                await asyncio.sleep(0.01)
        assert rig.invoice() < 5000 * 15_000
        check_settled_once(rig)


async def test_a_client_that_leaves_while_waiting_for_the_first_token_is_settled_too(tmp_path: Path) -> None:
    stalled = provider("one", faults=[{"kind": "first_token_stall"}])
    async with running_rig(tmp_path, [stalled]) as rig:
        asking = asyncio.ensure_future(ask(rig, body(stream=True)))
        lines = rig.simulator.engines["one"].log.lines
        async with asyncio.timeout(30):
            while not lines:  # the provider has the request, and will not answer
                await asyncio.sleep(0.005)
        asking.cancel()
        (finished,) = await rig.wait_event("RequestFinished")
        assert (finished.outcome, finished.attempts) == ("cancelled", 1)
        check_settled_once(rig)


@pytest.mark.parametrize(
    ("change", "status", "code"),
    [
        ({"key": "nope"}, 401, "key_unknown"),
        ({"key": ""}, 401, "key_missing"),
        ({"raw": b"{"}, 400, "body_invalid"),
        ({"raw": b'{"model":"ROUTE","model":"ROUTE","messages":[]}'}, 400, "body_invalid"),
        ({"json": {"model": "nowhere", "messages": []}}, 404, "route_unknown"),
        ({"json": {"model": "chat"}}, 400, "body_invalid"),
    ],
)
@pytest.mark.parametrize("path", ["/v1/chat/completions", "/v1/messages"])
async def test_bad_input_is_refused_and_nothing_is_dialed(
    tmp_path: Path, change: dict[str, Any], status: int, code: str, path: str
) -> None:
    async with running_rig(tmp_path) as rig, httpx.AsyncClient(timeout=30) as client:
        key = change.get("key", KEY)
        route = b"messages" if path == "/v1/messages" else b"chat"
        content = change["raw"].replace(b"ROUTE", route) if "raw" in change else None
        answer = await client.post(
            rig.url + path,
            content=content,
            json=None if content is not None else change.get("json", body(stream=False)),
            headers={"authorization": f"Bearer {key}"} if key else {},
        )
        assert answer.status_code == status, answer.text
        parsed = answer.json()
        assert parsed["error"]["code"] == code
        assert (parsed.get("type") == "error") == (path == "/v1/messages")
        assert rig.data("AttemptStarted") == []
        refused = await rig.wait_event("RequestRefused", 0 if status == 401 else 1)
        assert [data.code for data in refused] == ([] if status == 401 else [code])
        assert rig.invoice() == 0


async def test_models_health_and_readiness_answer(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig, httpx.AsyncClient(timeout=30) as client:
        assert (await client.get(rig.url + "/healthz")).json() == {"status": "ok"}
        assert (await client.get(rig.url + "/readyz")).status_code == 200
        models = await client.get(rig.url + "/v1/models", headers={"authorization": f"Bearer {KEY}"})
        assert [entry["id"] for entry in models.json()["data"]] == ["chat", "messages"]
        other = await client.get(
            rig.url + "/v1/models", headers={"x-api-key": KEY, "anthropic-version": "2023-06-01"}
        )
        assert [entry["type"] for entry in other.json()["data"]] == ["model", "model"]
        assert (await client.get(rig.url + "/v1/models")).status_code == 401
        assert (await client.get(rig.url + "/nowhere")).status_code == 404
        assert (await client.head(rig.url + "/")).status_code == 200
