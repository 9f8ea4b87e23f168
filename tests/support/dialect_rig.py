"""A gateway over one simulated provider that is reached in every dialect, each by a target and a route of its own."""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from support.fake_provider import route, settings_with
from support.rig import Rig, provider, running_rig
from tidegate.simulator.loading import load
from tidegate.simulator.server import RunningSimulator, start

CHATS = ("openai", "anthropic", "openai-responses")
DIALECTS = (*CHATS, "openai-embeddings")
_PRICE = (
    'input_uncached = "3"\ncache_read = "0.3"\ncache_write_5m = "3.75"\ncache_write_1h = "6"\noutput = "15"\n'
)
_STEERING = 'forward_headers = ["x-sim-fault", "x-sim-output-tokens", "x-sim-tool"]'


@contextlib.asynccontextmanager
async def dialect_rig(
    folder: Path, extra: str = "", **changes: Any
) -> AsyncIterator[tuple[Rig, RunningSimulator]]:
    """Targets `only-<dialect>`, routes `to-<dialect>`, and what `extra` adds; `changes` of the provider."""
    simulator = await start(load({"providers": [provider("one", **changes)]}))
    try:
        (port,) = simulator.ports.values()
        parts = [
            f'[[targets]]\nid = "only-{dialect}"\ndialect = "{dialect}"\nbase_url = "http://127.0.0.1:{port}"\n'
            f'model = "m"\nsecret = "env:SIM_KEY"\nallow_private = true\n{_STEERING}\n[[targets.prices]]\n{_PRICE}'
            + route(f"to-{dialect}", f"only-{dialect}")
            for dialect in DIALECTS
        ]
        async with running_rig(folder, settings=settings_with("".join(parts) + extra)) as rig:
            yield rig, simulator
    finally:
        await simulator.stop()


def billed(simulator: RunningSimulator) -> int:
    """The provider's own bill, nano-dollars."""
    (bill,) = simulator.invoices().values()
    return int(bill["total_nanousd"])
