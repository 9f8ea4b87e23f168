"""What the simulator's tests share: bodies, one provider, and an engine in virtual time."""

from typing import Any

import orjson

from tidegate.simulator.actions import Action, Body, Head, SimRequest
from tidegate.simulator.clock import VirtualClock
from tidegate.simulator.engine import Engine
from tidegate.simulator.invoice import Line
from tidegate.simulator.loading import load

MODEL: dict[str, Any] = {
    "name": "m",
    "input_uncached": 3_000_000_000,
    "cache_read": 300_000_000,
    "cache_write_5m": 3_750_000_000,
    "cache_write_1h": 6_000_000_000,
    "output": 15_000_000_000,
}
ANTHROPIC_HEADERS = {"anthropic-version": "2023-06-01"}


def provider(**overrides: Any) -> dict[str, Any]:
    """One provider `p` with the model `m`."""
    return {"id": "p", "seed": 7, "models": [MODEL], **overrides}


def chat(text: str = "hello there", **fields: Any) -> dict[str, Any]:
    """The body of a chat completion."""
    return {"model": "m", "messages": [{"role": "user", "content": text}], **fields}


def message(text: str = "hello there", **fields: Any) -> dict[str, Any]:
    """The body of a message."""
    return {"max_tokens": 1000, **chat(text, **fields)}


class Bench:
    """An engine in virtual time."""

    def __init__(self, **overrides: Any) -> None:
        self.clock = VirtualClock()
        config = load({"providers": [provider(**overrides)]})
        self.engine = Engine(config.providers[0], self.clock)

    async def ask(
        self, body: dict[str, Any], path: str = "/v1/chat/completions", **headers: str
    ) -> list[Action]:
        """Every action of one answer, as virtual time brings them; underscores in header names are dashes."""
        return await self.clock.run(self.collect(request(body, path, **headers)))

    async def collect(self, asked: SimRequest) -> list[Action]:
        return [action async for action in self.engine.handle(asked)]


def request(body: dict[str, Any], path: str = "/v1/chat/completions", **headers: str) -> SimRequest:
    """A POST as the engine takes it."""
    named = [(name.replace("_", "-").encode(), value.encode()) for name, value in headers.items()]
    if path.startswith("/v1/messages"):
        named.append((b"anthropic-version", b"2023-06-01"))
    return SimRequest("POST", path, "", named, orjson.dumps(body))


def body_of(actions: list[Action]) -> bytes:
    """All body bytes of an answer."""
    return b"".join(action.data for action in actions if isinstance(action, Body))


def status_of(actions: list[Action]) -> int:
    """The status of an answer."""
    return next(action.status for action in actions if isinstance(action, Head))


def headers_of(actions: list[Action]) -> dict[str, str]:
    """The headers of an answer."""
    head = next(action for action in actions if isinstance(action, Head))
    return {name.decode(): value.decode() for name, value in head.headers}


def last_line(bench: Bench) -> Line:
    """The newest line of the provider's log."""
    return bench.engine.log.lines[-1]
