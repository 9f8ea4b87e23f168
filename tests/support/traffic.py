"""Clients that never stop asking, and know of each request how it ended from where they sit."""

from __future__ import annotations

import asyncio
import itertools
import json
from dataclasses import dataclass
from types import TracebackType
from typing import Any, Literal, Self

import httpx

from support.fleet import until
from support.rig import KEY

Fate = Literal["open", "finished", "failed", "unknown"]
KINDS = tuple(itertools.product(("chat", "plan", "messages"), (True, False)))
"""(route, streamed) of the requests a client asks in turn."""


@dataclass(slots=True)
class Asked:
    """One request. `finished`: it has its terminal marker, or is one whole JSON document; `failed`: it was
    told so; `unknown`: the connection ended without either."""

    marker: str
    route: str
    streamed: bool
    fate: Fate = "open"
    request: str | None = None
    """The gateway's id of it, when a head arrived."""
    content: bool = False
    """Some of a stream arrived."""
    told: str = ""
    """The error as it was told, or how the connection ended."""


class Traffic:
    """`clients` ask again and again, each the next request when its last one ended, until the block ends.

    Each request has a session of its own, named by its marker, so that events can be told apart even
    where no answer said which request it was."""

    def __init__(self, url: str, clients: int = 6, output_tokens: int = 12, name: str = "t") -> None:
        self._url = url
        self._clients = clients
        self._output_tokens = output_tokens
        self._name = name
        self._numbers = itertools.count()
        self._stopping = False
        self._tasks: list[asyncio.Task[Any]] = []
        self._http = httpx.AsyncClient(trust_env=False, timeout=60, limits=httpx.Limits(max_connections=None))
        self.asked: list[Asked] = []
        self._finished: asyncio.Future[Asked] | None = None

    async def __aenter__(self) -> Self:
        self._tasks = [asyncio.ensure_future(self._client()) for _ in range(self._clients)]
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.stop()
        if error is not None:
            for task in self._tasks:
                task.cancel()
        try:
            await asyncio.gather(*self._tasks, return_exceptions=error is not None)
        finally:
            await self._http.aclose()

    def of(self, *fates: Fate) -> list[Asked]:
        """Requests that ended so."""
        return [asked for asked in self.asked if asked.fate in fates]

    @property
    def open(self) -> set[str]:
        """Markers of requests that have not ended."""
        return {asked.marker for asked in self.of("open")}

    def stop(self) -> None:
        """No client asks another request."""
        self._stopping = True

    async def more(self, count: int, what: str) -> None:
        """Until `count` more requests were finished than now."""
        goal = len(self.of("finished")) + count

        def reached() -> bool:
            for task in self._tasks:
                if task.done():
                    task.result()  # a client that failed by itself
            return len(self.of("finished")) >= goal

        await until(reached, lambda: f"{count} more finished requests {what}; so far {self.summary()}")

    async def next_finished(self) -> Asked:
        """The next stream that has its terminal marker, at the moment its client has it."""
        self._finished = asyncio.get_running_loop().create_future()
        async with asyncio.timeout(60):
            return await self._finished

    def summary(self) -> dict[str, int]:
        """How many ended in which way."""
        found: dict[str, int] = {}
        for asked in self.asked:
            word = asked.fate if asked.fate != "failed" else f"failed: {asked.told[:120]}"
            found[word] = found.get(word, 0) + 1
        return found

    async def _client(self) -> None:
        while not self._stopping:
            number = next(self._numbers)
            route, streamed = KINDS[number % len(KINDS)]
            await self.ask(Asked(f"{self._name}-{number}", route, streamed))

    def begin(self, asked: Asked) -> asyncio.Task[Asked]:
        """Ask it beside everything else."""
        task = asyncio.ensure_future(self.ask(asked))
        self._tasks.append(task)
        return task

    async def begin_streams(
        self, count: int, name: str, routes: tuple[str, ...]
    ) -> list[asyncio.Task[Asked]]:
        """So many streams, each with some content at its client."""
        tasks = [
            self.begin(Asked(f"{name}-{n}", routes[n % len(routes)], streamed=True)) for n in range(count)
        ]
        begun = self.asked
        await until(
            lambda: sum(asked.content for asked in begun if asked.marker.startswith(f"{name}-")) == count,
            lambda: f"{count} open streams; {self.summary()}",
        )
        return tasks

    def _tell(self, asked: Asked) -> None:
        if self._finished is not None and not self._finished.done():
            self._finished.set_result(asked)

    async def ask(self, asked: Asked, **headers: str) -> Asked:
        """Ask it and note how it ended; never raises for what a gateway may do."""
        self.asked.append(asked)
        anthropic = asked.route == "messages"
        path = "/v1/messages" if anthropic else "/v1/chat/completions"
        body: dict[str, Any] = {
            "model": asked.route,
            "stream": asked.streamed,
            "messages": [{"role": "user", "content": f"{asked.marker}: tell me about tides. " * 12}],
        }
        if anthropic:
            body["max_tokens"] = 4 * self._output_tokens
        sent = {
            "authorization": f"Bearer {KEY}",
            "x-tidegate-session": asked.marker,
            "x-sim-output-tokens": str(self._output_tokens),
            **headers,
        }
        try:
            async with self._http.stream("POST", self._url + path, json=body, headers=sent) as answer:
                asked.request = answer.headers.get("x-tidegate-request-id")
                parts = []
                async for part in answer.aiter_bytes():
                    parts.append(part)
                    asked.content = True
                    if streamed_to_its_end(part):
                        self._tell(asked)
                _judge(asked, answer.status_code, b"".join(parts))
        except httpx.HTTPError as error:
            asked.fate, asked.told = "unknown", repr(error)
        return asked


def streamed_to_its_end(part: bytes) -> bool:
    """Whether a stream's terminal marker is in these bytes."""
    return b"data: [DONE]\n\n" in part or b"event: message_stop\n" in part


def _judge(asked: Asked, status: int, body: bytes) -> None:
    if status != 200:
        asked.fate, asked.told = "failed", f"{status} {_code(body)}"
    elif not asked.streamed:
        json.loads(body)
        asked.fate = "finished"
    elif streamed_to_its_end(body):
        asked.fate = "finished"
    elif b'"error"' in body:
        asked.fate, asked.told = "failed", f"in band {_code(body.rpartition(b'data: ')[2])}"
    else:
        asked.fate, asked.told = "unknown", "the stream had no end"


def _code(body: bytes) -> str:
    try:
        return str(json.loads(body)["error"].get("code"))
    except (ValueError, KeyError, AttributeError):
        return repr(body[:80])
