"""The query socket: one request at a time per connection; a client that goes away stops its query."""

import asyncio
import os
from contextlib import suppress
from pathlib import Path
from typing import Protocol

import msgspec

from tidegate.events.errors import Broken, Refused, TidegateError, Unavailable
from tidegate.projections.protocol import (
    Ask,
    BadFrame,
    decode_ask,
    encode_answer,
    encode_facts,
    encode_fault,
    frame,
    read_frame,
)
from tidegate.projections.query import Answer

MAX_CONNECTIONS = 64
_MAX_PATH_BYTES = 100
"""The kernel takes 107 on Linux and 103 on macOS."""


class Handler(Protocol):
    """What the socket serves."""

    async def query(self, ask: Ask) -> Answer:
        """Answer one SELECT. Raises TidegateError."""
        ...

    def status(self) -> msgspec.Struct:
        """How the projector is."""
        ...

    async def swap(self, *, force: bool) -> msgspec.Struct:
        """Take over a rebuilt file. Raises TidegateError."""
        ...


class QueryServer:
    """Serves a handler on a unix socket that only its owner may open."""

    def __init__(self, path: Path, handler: Handler) -> None:
        self._path = path
        self._handler = handler
        self._server: asyncio.Server | None = None
        self._open: set[asyncio.Task[None]] = set()

    async def start(self) -> None:
        """Listen. A socket file of a dead predecessor is replaced: the database lock proves it dead."""
        if len(os.fsencode(self._path)) > _MAX_PATH_BYTES:
            raise Refused(f"socket path {self._path} is longer than {_MAX_PATH_BYTES} bytes")
        self._path.unlink(missing_ok=True)
        before = os.umask(0o177)
        try:
            self._server = await asyncio.start_unix_server(self._accept, path=str(self._path))
        finally:
            os.umask(before)

    async def close(self) -> None:
        """Stop listening and drop every connection."""
        if self._server is not None:
            self._server.close()
        for task in tuple(self._open):
            task.cancel()
        await asyncio.gather(*self._open, return_exceptions=True)
        self._path.unlink(missing_ok=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        if task is None:
            raise Broken("a connection is handled outside a task")
        self._open.add(task)
        try:
            if len(self._open) > MAX_CONNECTIONS:
                await _send(writer, encode_fault(Unavailable("too many connections", retry_after_s=1.0)))
            else:
                await self._converse(reader, writer)
        except (ConnectionError, asyncio.CancelledError):
            pass  # the client left, or the server closes: either way this connection is over
        finally:
            self._open.discard(task)
            writer.close()
            with suppress(ConnectionError):
                await writer.wait_closed()

    async def _converse(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        while True:
            try:
                body = await read_frame(reader)
                if body is None:
                    return
                ask = decode_ask(body)
            except BadFrame as error:
                await _send(writer, encode_fault(error))
                return
            answer = await self._watched(ask, reader)
            if answer is None:
                return
            await _send(writer, answer)

    async def _watched(self, ask: Ask, reader: asyncio.StreamReader) -> bytes | None:
        """The answer; None when the client went away (or spoke out of turn) before it was ready."""
        answering = asyncio.ensure_future(self._answer(ask))
        leaving = asyncio.ensure_future(reader.read(1))
        try:
            await asyncio.wait({answering, leaving}, return_when=asyncio.FIRST_COMPLETED)
            return answering.result() if answering.done() and not leaving.done() else None
        finally:
            for task in (answering, leaving):
                task.cancel()
            await asyncio.gather(answering, leaving, return_exceptions=True)

    async def _answer(self, ask: Ask) -> bytes:
        try:
            if ask.op == "query":
                return encode_answer(await self._handler.query(ask))
            if ask.op == "status":
                return encode_facts(self._handler.status())
            return encode_facts(await self._handler.swap(force=ask.force))
        except TidegateError as error:
            return encode_fault(error)


async def _send(writer: asyncio.StreamWriter, body: bytes) -> None:
    writer.write(frame(body))
    await writer.drain()
