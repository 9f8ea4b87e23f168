"""Frames of the query socket: four bytes of length (big endian), then JSON. Documented in reference/sql.md."""

import asyncio
from typing import Any, Literal

import msgspec

from tidegate.events.errors import Refused, TidegateError, Unavailable
from tidegate.events.log.port import TopicPartition
from tidegate.projections.query import Answer

MAX_REQUEST_BYTES = 1024 * 1024
_LENGTH_BYTES = 4


class BadFrame(Refused):
    """The peer does not speak the protocol; the connection is closed."""

    code = "bad_frame"


class Ask(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """What a client asks. `status` and `swap` take no other field."""

    op: Literal["query", "status", "swap"] = "query"
    sql: str = ""
    params: list[Any] | dict[str, Any] | None = None
    max_rows: int | None = None
    timeout_s: float | None = None
    min_position: list[tuple[str, int, int]] = []
    """(topic, partition, position): answer only from a read model that has come so far."""
    force: bool = False
    """With `swap`: also when the contents differ or the new file does not hold the whole log."""

    def wanted(self) -> dict[TopicPartition, int]:
        """`min_position` by partition."""
        return {TopicPartition(topic, at): position for topic, at, position in self.min_position}


class Fault(msgspec.Struct, frozen=True, kw_only=True):
    """An error: `code` is closed, `message` names what is wrong."""

    code: str
    message: str
    retry_after_s: float | None = None


_encode = msgspec.json.Encoder().encode
_asks = msgspec.json.Decoder(Ask)


def decode_ask(body: bytes) -> Ask:
    """Raises BadFrame."""
    try:
        return _asks.decode(body)
    except msgspec.DecodeError as error:
        raise BadFrame(f"not a request: {error}") from error


def encode_answer(answer: Answer) -> bytes:
    """`{"columns", "types", "rows", "truncated"}`."""
    return _encode(answer)


def encode_facts(facts: msgspec.Struct) -> bytes:
    """`{"result": …}`: the answer to `status` and `swap`."""
    return _encode({"result": facts})


def encode_fault(error: TidegateError) -> bytes:
    """`{"error": {"code", "message", "retry_after_s"}}`."""
    retry_after_s = error.retry_after_s if isinstance(error, Unavailable) else None
    return _encode({"error": Fault(code=error.code, message=str(error), retry_after_s=retry_after_s)})


async def read_frame(reader: asyncio.StreamReader) -> bytes | None:
    """The next body, None at the end of the stream. Raises BadFrame."""
    try:
        length = int.from_bytes(await reader.readexactly(_LENGTH_BYTES), "big")
    except asyncio.IncompleteReadError as error:
        if not error.partial:
            return None
        raise BadFrame("the stream ended inside a frame") from error
    if length > MAX_REQUEST_BYTES:
        raise BadFrame(f"a request of {length} bytes is longer than {MAX_REQUEST_BYTES}")
    try:
        return await reader.readexactly(length)
    except asyncio.IncompleteReadError as error:
        raise BadFrame("the stream ended inside a frame") from error


def frame(body: bytes) -> bytes:
    """The body with its length before it."""
    return len(body).to_bytes(_LENGTH_BYTES, "big") + body
