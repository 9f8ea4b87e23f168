"""Unique secrets and texts go through good and faulty requests: no byte of them stands anywhere afterwards."""

from __future__ import annotations

import itertools
import logging
import secrets
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import duckdb
import httpx
import pytest

from support.log_reading import read_all
from support.rig import KEY as RIG_KEY
from support.rig import UPSTREAM_KEY, provider, running_rig
from support.served import Served, serving
from tidegate.events.journal import frames
from tidegate.events.journal.journal import journal_folders
from tidegate.events.journal.store import JournalTail
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import CONTROL, DEADLETTER, REQUESTS, SIGNALS, SNAPSHOTS, SPEND, STATE
from tidegate.gateway.credentials import key_digest, key_text

pytestmark = pytest.mark.slow
FAULTS = (
    "", "503", "cut", "rst", "hidden_usage", "error_200", "garbage", "garbage_body", "malformed_event",
    "429;message=sorry", "401;message=sorry", "500;message=sorry;body=html", "error_200;message=sorry",
)  # fmt: skip
PATHS = ("/v1/chat/completions", "/v1/messages")
TOPICS = (REQUESTS, SIGNALS, SPEND, CONTROL, SNAPSHOTS, STATE, DEADLETTER)


def canaries() -> dict[str, str]:
    names = ("upstream key", "admin token", "prompt", "session", "user", "argument", "header", "wrong key")
    return {
        **{name: f"canary-{name.replace(' ', '-')}-{secrets.token_hex(12)}" for name in names},
        "client key": key_text(secrets.token_bytes(32)),
        "data key": secrets.token_hex(16),
    }


def request_of(path: str, found: Mapping[str, str], *, stream: bool) -> dict[str, Any]:
    arguments = '{"city": "' + found["argument"] + '"}'
    if path == "/v1/messages":
        call: dict[str, Any] = {
            "type": "tool_use",
            "id": "t1",
            "name": "w",
            "input": {"city": found["argument"]},
        }
        return {
            "model": "messages", "max_tokens": 64, "stream": stream, "system": found["prompt"],
            "metadata": {"user_id": f"{found['user']}_session_{found['session']}"},
            "messages": [
                {"role": "user", "content": found["prompt"]},
                {"role": "assistant", "content": [call]},
                {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "t1", "content": found["argument"]}]},
            ],
        }  # fmt: skip
    call = {"id": "t1", "type": "function", "function": {"name": "w", "arguments": arguments}}
    return {
        "model": "chat", "stream": stream, "user": found["user"],
        "messages": [
            {"role": "user", "content": found["prompt"]},
            {"role": "assistant", "content": None, "tool_calls": [call]},
            {"role": "tool", "tool_call_id": "t1", "content": found["argument"]},
        ],
    }  # fmt: skip


async def drive(
    url: str, key: str, found: Mapping[str, str], *, routed: bool
) -> tuple[list[bytes], list[str]]:
    """Every fault on both dialects, whole and streamed: by a route of its own, or by a header.

    Returns what refusals said, and completion texts."""
    refusals: list[bytes] = []
    texts: list[str] = []
    async with httpx.AsyncClient(base_url=url, timeout=30, trust_env=False) as client:
        for path, number, stream in itertools.product(PATHS, range(len(FAULTS)), (False, True)):
            body = request_of(path, found, stream=stream)
            fault = FAULTS[number]
            headers = {
                "authorization": f"Bearer {key}",
                "x-tidegate-session": found["session"],
                "x-canary": found["header"],
            }
            if routed:
                body["model"] += f"-{number}"
            elif fault:
                headers["x-sim-fault"] = fault
            answer = await client.post(path, json=body, headers=headers)
            if answer.status_code != 200:
                refusals.append(str(answer.headers).encode() + answer.content)
            elif not stream:
                texts.append(_text(answer.json()))
        for path in PATHS:
            wrong = await client.post(path, json={}, headers={"x-api-key": found["wrong key"]})
            assert wrong.status_code == 401
            bad = await client.post(
                path, content=found["prompt"].encode(), headers={"authorization": f"Bearer {key}"}
            )
            assert bad.status_code == 400
            refusals += [wrong.content, bad.content]
    assert len(refusals) > 4
    assert texts
    return refusals, texts


def _text(answer: dict[str, Any]) -> str:
    text: str = (
        answer["choices"][0]["message"]["content"] if "choices" in answer else answer["content"][0]["text"]
    )
    assert len(text) >= 16
    return text


def check(found: Mapping[str, str], places: Iterator[tuple[str, bytes]]) -> int:
    """No canary in any place; returns how many bytes were looked through."""
    size = 0
    for where, raw in places:
        size += len(raw)
        hits = [name for name, canary in found.items() if canary.encode() in raw]
        assert not hits, f"{hits} in {where}: {raw[:600]!r}"
    return size


def files(folder: Path) -> Iterator[tuple[str, bytes]]:
    for path in sorted(folder.rglob("*")):
        if path.is_file() and path.name != "data.key":
            yield str(path), path.read_bytes()


async def decoded(served: Served) -> list[tuple[str, bytes]]:
    """What files may hold packed: journal frames, log records, rows of the read model."""
    found: list[tuple[str, bytes]] = []
    for folder in journal_folders(served.machine.data_dir):
        tail = JournalTail(folder)
        for row in tail.rows(0, 1 << 60, -1):
            found += [(f"journal {folder.name}", frame.value) for frame in frames.unpack(row.frames)]
        tail.close()
    log = served.machine.open_log()
    places = [TopicPartition(topic.name, p) for topic in TOPICS for p in range(topic.partitions)]
    found += [(f"log {record.topic}", record.value or b"") for record in await read_all(log, places)]
    await log.close()
    with duckdb.connect(str(served.machine.projections_path), read_only=True) as database:
        tables = database.execute("SELECT table_schema, table_name FROM information_schema.tables").fetchall()
        for schema, name in tables:
            rows = database.execute(f'SELECT * FROM "{schema}"."{name}"').fetchall()
            found.append((f"read model {name}", repr(rows).encode()))
    return found


def scheduled(fault: str) -> list[dict[str, Any]]:
    kind, *pairs = fault.split(";")
    return [{"kind": kind, "params": dict(pair.split("=") for pair in pairs)}] if kind else []


def routes() -> list[dict[str, Any]]:
    """One per fault and dialect: to the provider that has it and then to a good one, or to it alone where
    the client is to see the error."""
    return [
        {
            "name": f"{route}-{number}",
            "strategy": "declared",
            "candidates": [
                {"target": f"p{which}-{dialect}"}
                for which in ((number,) if "message" in fault else (number, 0))
            ][: 2 if number else 1],
        }
        for number, fault in enumerate(FAULTS)
        for route, dialect in (("chat", "openai"), ("messages", "anthropic"))
    ]


async def test_no_secret_and_no_text_stands_in_files_output_or_answers() -> None:
    found = canaries()
    env = {"SIM_KEY": found["upstream key"], "ADMIN_CANARY": found["admin token"]}
    providers = [
        provider(f"p{number}", api_key=found["upstream key"], faults=scheduled(fault))
        for number, fault in enumerate(FAULTS)
    ]

    def tables(_ports: Mapping[str, int]) -> dict[str, Any]:
        keys = [{"id": "k1", "tenant": "acme", "digest": key_digest(found["client key"])}]
        return {"keys": keys, "admin": {"port": 0, "token": "env:ADMIN_CANARY"}, "routes": routes()}

    def prepare(folder: Path) -> None:
        (folder / "data").mkdir()
        (folder / "data" / "data.key").write_bytes(found["data key"].encode())

    async with serving(providers, env, tables, prepare) as served:
        said, texts = await drive(served.url, found["client key"], found, routed=True)
        found |= {f"completion {number}": text for number, text in enumerate(texts)}
        await served.settled()
        for name, fault in ((f"p{number}", fault) for number, fault in enumerate(FAULTS) if fault):
            struck = {record["fault"] for record in (await served.sim(name, "log"))["records"]}
            assert fault.split(";")[0] in struck, name
        for path in ("/metrics", "/admin/status"):
            said.append((await served.admin("GET", path)).content)
        said.append((await served.admin("GET", "/metrics", found["wrong key"])).content)
        for command in (
            ("explain", "--json"),
            ("report", "failures", "--json"),
            ("config", "check", "--json"),
        ):
            said.append(str(await served.run(*command)).encode())
        assert await served.stop() == 0
        rows = await decoded(served)
        assert len(rows) > 300
        looked = check(found, iter([("an answer", raw) for raw in said]))
        looked += check(found, files(served.folder / "data"))
        looked += check(found, iter([("serve's output", (served.folder / "serve.out").read_bytes())]))
        looked += check(found, iter(rows))
        assert looked > 1_000_000


async def test_no_secret_and_no_text_stands_in_debug_logs_and_reprs(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, capfd: pytest.CaptureFixture[str]
) -> None:
    caplog.set_level(logging.DEBUG)
    for library in ("httpx", "httpcore", "hpack"):
        caplog.set_level(logging.WARNING, library)  # the test's own client
    found = {**canaries(), "upstream key": UPSTREAM_KEY, "client key": RIG_KEY}
    async with running_rig(tmp_path) as rig:
        _, texts = await drive(rig.url, RIG_KEY, found, routed=False)
        found |= {f"completion {number}": text for number, text in enumerate(texts)}
        shown = [rig.machine, rig.machine.settings, rig.role, *vars(rig.role).values()]
        places = [(f"repr of {type(each).__name__}", repr(each).encode()) for each in shown]
        places += [
            ("a record", f"{record.getMessage()} {record.exc_text}".encode()) for record in caplog.records
        ]
        out, err = capfd.readouterr()
        places += [("output", out.encode()), ("errors", err.encode())]
        assert check(found, iter(places)) > 0


async def test_an_upstream_that_repeats_our_key_in_its_error_does_not_tell_the_client(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig, httpx.AsyncClient(timeout=30, trust_env=False) as client:
        answer = await client.post(
            f"{rig.url}/v1/chat/completions",
            json={"model": "chat", "messages": [{"role": "user", "content": "hi"}]},
            headers={"authorization": f"Bearer {RIG_KEY}", "x-sim-fault": f"429;message={UPSTREAM_KEY}"},
        )
        assert answer.status_code == 503
        assert UPSTREAM_KEY not in answer.text
