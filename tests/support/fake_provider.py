"""An upstream that answers each call as the test says and remembers what it was sent; and a config that names it."""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import AsyncIterator, Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from support.rawserver import Peer, RawServer, response
from support.rig import KEY, Rig, running_rig
from tidegate.events.config import Settings
from tidegate.gateway.credentials import key_digest
from tidegate.runtime.settings import parse_settings

PRICE = '[[targets.prices]]\ninput_uncached = "3"\ncache_read = "0.3"\noutput = "15"'


@dataclass
class Call:
    """One request as the upstream got it; header names in lower case."""

    line: str
    headers: dict[str, str]
    body: bytes

    @property
    def path(self) -> str:
        return self.line.split(" ")[1]

    @property
    def json(self) -> Any:
        return json.loads(self.body)


Answer = Callable[[Call], bytes]
"""The whole HTTP response to a call."""


def answer(
    body: Any,
    headers: Mapping[str, str] | None = None,
    status: str = "200 OK",
    kind: str = "application/json",
) -> bytes:
    """A response; `body` is bytes, a text, or what becomes JSON."""
    content = body if isinstance(body, bytes) else body.encode() if isinstance(body, str) else None
    lines = [f"content-type: {kind}".encode()]
    lines += [f"{name}: {value}".encode() for name, value in (headers or {}).items()]
    return response(json.dumps(body).encode() if content is None else content, *lines, status=status.encode())


def sse(*events: Any, headers: Mapping[str, str] | None = None) -> bytes:
    """A stream; an event is a text as it stands, or an object whose `type`, if any, is the event's name."""
    text = ""
    for event in events:
        if isinstance(event, str):
            text += event
        else:
            text += f"event: {event['type']}\n" if "type" in event else ""
            text += f"data: {json.dumps(event)}\n\n"
    return answer(text, headers, kind="text/event-stream")


@dataclass
class FakeProvider:
    """What it is called with is in `calls`."""

    answer: Answer
    calls: list[Call] = field(default_factory=list)
    url: str = ""
    wait: asyncio.Event | None = None
    """Nothing is answered before it is set."""

    pause_before: bytes = b""
    """Only what stands before it is sent, until `resume` is set."""
    resume: asyncio.Event = field(default_factory=asyncio.Event)

    async def script(self, peer: Peer) -> None:
        while True:
            head, _, body = (await peer.request()).partition(b"\r\n\r\n")
            line, *fields = head.decode("latin-1").split("\r\n")
            pairs = (each.partition(":") for each in fields)
            call = Call(line, {name.lower(): value.strip() for name, _, value in pairs}, body)
            self.calls.append(call)
            if self.wait is not None:
                await self.wait.wait()
            sent = self.answer(call)
            at = sent.find(self.pause_before) if self.pause_before else 0
            if at > 0:
                await peer.send(sent[:at])
                await self.resume.wait()
            await peer.send(sent[max(at, 0) :])


def target(name: str, url: str, dialect: str, extra: str = "") -> str:
    return (
        f'[[targets]]\nid = "{name}"\ndialect = "{dialect}"\nbase_url = "{url}"\nmodel = "real-{name}"\n'
        f'secret = "env:SIM_KEY"\nallow_private = true\n{extra}\n{PRICE}\n'
    )


def route(name: str, *targets: str, extra: str = "") -> str:
    candidates = "".join(f'[[routes.candidates]]\ntarget = "{each}"\n' for each in targets)
    return f'[[routes]]\nname = "{name}"\nstrategy = "declared"\n{extra}\n{candidates}'


def settings_with(text: str) -> Settings:
    """A gateway with one tenant and key, and what the text adds."""
    return parse_settings(
        'data_dir = "data"\n[gateway]\nport = 0\nsilent_keepalive_s = 0.2\n[[tenants]]\nid = "acme"\n'
        f'[[keys]]\nid = "k1"\ntenant = "acme"\ndigest = "{key_digest(KEY)}"\n{text}'
    )


@contextlib.asynccontextmanager
async def gateway_over(
    folder: Path, config: Callable[[str], str], fake: Answer
) -> AsyncIterator[tuple[Rig, FakeProvider]]:
    """A gateway whose targets and routes are `config(url of the fake provider)`."""
    provider = FakeProvider(fake)
    async with RawServer(provider.script) as server:
        provider.url = server.url
        settings = settings_with(config(server.url))
        async with running_rig(folder, settings=settings) as rig:
            yield rig, provider
