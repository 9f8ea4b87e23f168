"""The client's end of the query socket, against a peer that misbehaves."""

import asyncio
from collections.abc import AsyncGenerator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from tidegate.analytics import client
from tidegate.analytics.client import SocketSource
from tidegate.analytics.errors import QueryRefused, QueryUnavailable
from tidegate.events.log.port import TopicPartition


@asynccontextmanager
async def peer(folder: Path, reply: bytes) -> AsyncGenerator[tuple[SocketSource, list[dict[str, object]]]]:
    """A socket that answers every frame with these bytes and hangs up."""
    asked: list[dict[str, object]] = []

    async def answer(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        length = int.from_bytes(await reader.readexactly(4), "big")
        asked.append(msgspec.json.decode(await reader.readexactly(length)))
        writer.write(reply)
        writer.close()

    server = await asyncio.start_unix_server(answer, path=str(folder / "s"))
    try:
        yield SocketSource(folder / "s"), asked
    finally:
        server.close()
        await server.wait_closed()


def framed(value: object) -> bytes:
    body = msgspec.json.encode(value)
    return len(body).to_bytes(4, "big") + body


ANSWER = {"columns": ["a"], "types": ["BIGINT"], "rows": [[2**53 + 1]], "truncated": False}


async def test_it_says_what_it_wants_and_leaves_out_what_it_does_not(tmp_path: Path) -> None:
    async with peer(tmp_path, framed(ANSWER)) as (source, asked):
        answer = await source.query("SELECT 1")
        await source.query(
            "SELECT $a", {"a": 1}, max_rows=5, timeout_s=2.5, min_position={TopicPartition("t", 3): 9}
        )
    assert (answer.columns, bytes(answer.rows), answer.truncated) == (("a",), b"[[9007199254740993]]", False)
    assert asked == [
        {"sql": "SELECT 1"},
        {
            "sql": "SELECT $a",
            "params": {"a": 1},
            "max_rows": 5,
            "timeout_s": 2.5,
            "min_position": [["t", 3, 9]],
        },
    ]


@pytest.mark.parametrize(
    ("code", "error"),
    [
        ("sql_refused", QueryRefused),
        ("sql_failed", QueryRefused),
        ("not_caught_up", QueryUnavailable),
        ("query_timeout", QueryUnavailable),
        ("unavailable", QueryUnavailable),
    ],
)
async def test_errors_keep_their_code_message_and_what_to_do(
    tmp_path: Path, code: str, error: type[QueryRefused | QueryUnavailable]
) -> None:
    reply = framed({"error": {"code": code, "message": "why", "retry_after_s": 1.5}})
    async with peer(tmp_path, reply) as (source, _):
        with pytest.raises(error, match="why") as caught:
            await source.query("SELECT 1")
    assert caught.value.code == code
    if isinstance(caught.value, QueryUnavailable):
        assert caught.value.retry_after_s == 1.5


async def test_no_projector_is_named_with_its_socket(tmp_path: Path) -> None:
    with pytest.raises(QueryUnavailable, match=r"no projector answers at .*/s"):
        await SocketSource(tmp_path / "s").status()


@pytest.mark.parametrize("reply", [b"", b"\x00\x00", framed(ANSWER)[:-3]])
async def test_a_peer_that_hangs_up_early_is_unavailable(tmp_path: Path, reply: bytes) -> None:
    async with peer(tmp_path, reply) as (source, _):
        with pytest.raises(QueryUnavailable):
            await source.query("SELECT 1")


async def test_a_peer_that_never_answers_is_given_up(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(client, "_GRACE_S", 0.01)
    waiting = asyncio.Event()

    async def silent(_: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        await waiting.wait()
        writer.close()

    server = await asyncio.start_unix_server(silent, path=str(tmp_path / "s"))
    with pytest.raises(QueryUnavailable, match="timed out"):
        await SocketSource(tmp_path / "s").query("SELECT 1", timeout_s=0.0)
    waiting.set()
    server.close()
    await server.wait_closed()


async def test_an_answer_that_claims_to_be_huge_is_not_read(tmp_path: Path) -> None:
    async with peer(tmp_path, (2**31).to_bytes(4, "big")) as (source, _):
        with pytest.raises(QueryRefused, match="too long"):
            await source.query("SELECT 1")
