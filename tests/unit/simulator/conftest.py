"""A simulator over loopback and a plain client for it."""

from collections.abc import AsyncIterator, Awaitable, Callable
from typing import Any

import httpx
import pytest

from tidegate.simulator.loading import load
from tidegate.simulator.server import RunningSimulator, start
from unit.simulator.rig import provider

Simulate = Callable[..., Awaitable[RunningSimulator]]


@pytest.fixture
async def simulate() -> AsyncIterator[Simulate]:
    """Start a simulator of one provider `p`; keywords override the provider, `top` the configuration."""
    running: list[RunningSimulator] = []

    async def begin(top: dict[str, Any] | None = None, **overrides: Any) -> RunningSimulator:
        config = load({"providers": [provider(**overrides)], **(top or {})})
        running.append(await start(config))
        return running[-1]

    yield begin
    for simulator in running:
        await simulator.stop()


@pytest.fixture
async def http() -> AsyncIterator[httpx.AsyncClient]:
    """A client with a deadline, so that a fault cannot hang a test; reading certificates would take longer."""
    async with httpx.AsyncClient(timeout=10, trust_env=False, verify=False) as client:
        yield client
