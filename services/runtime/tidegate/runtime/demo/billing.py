"""The providers' own bills over HTTP, and corrections on their way into the log."""

import asyncio
from collections.abc import Mapping, Sequence
from typing import Any

import httpx
import msgspec

from tidegate.analytics.bills import Bill, BillLine, Correction
from tidegate.events.clock import Clock
from tidegate.events.errors import Unavailable
from tidegate.events.journal.journal import read_position
from tidegate.events.journal.receipt import Context
from tidegate.events.money import Tokens
from tidegate.events.partition import partition_of
from tidegate.events.topics import SIGNALS
from tidegate.events.types import TargetId
from tidegate.runtime.demo.waiting import in_time
from tidegate.runtime.machine import Machine

SLOT = "reconcile"
POLL_S = 0.02
DEADLINE_S = 30.0
_TIMEOUT_S = 30.0


class _Line(msgspec.Struct):
    attempt: str | None
    billed: bool
    tokens: Tokens
    cost_nanousd: int


class _Invoice(msgspec.Struct):
    provider: str
    lines: list[_Line]
    total_nanousd: int


class _State(msgspec.Struct):
    in_flight: int


class _Usage(msgspec.Struct):
    state: str
    totals: Mapping[str, int]


class Bills:
    """Bills of simulated providers; `ports` by provider, which is also the id of its one target."""

    def __init__(self, ports: Mapping[str, int], clock: Clock) -> None:
        self._ports = ports
        self._clock = clock
        self.totals: dict[str, int] = {}
        """What each provider asks for in all, nano-dollars, fees included; filled by `fetch`."""

    async def fetch(self) -> Sequence[Bill]:
        """One bill per provider, drawn once nothing is in flight there. Raises Unavailable."""
        async with _client() as client:
            return [await self._bill(client, provider) for provider in self._ports]

    async def cost_nanousd(self, provider: str, attempt: str) -> int | None:
        """What a provider says of one attempt when asked for it alone; None while it is open."""
        async with _client() as client:
            usage = await self._get(client, provider, f"usage/{attempt}", _Usage)
        return None if usage.state == "open" else usage.totals["cost_nanousd"]

    async def _bill(self, client: httpx.AsyncClient, provider: str) -> Bill:
        async with in_time(DEADLINE_S, lambda: f"provider {provider} still has requests in flight"):
            while (await self._get(client, provider, "state", _State)).in_flight:  # noqa: ASYNC110 - its, not ours
                await asyncio.sleep(POLL_S)
        # Nothing is in flight: an attempt that settled before now has its line.
        complete_until_ns = self._clock.wall_ns()
        invoice = await self._get(client, provider, "invoice", _Invoice)
        self.totals[provider] = invoice.total_nanousd
        return Bill(
            provider=provider,
            targets=frozenset({TargetId(provider)}),
            lines=tuple(
                BillLine(
                    attempt=line.attempt,
                    provider=provider,
                    tokens=line.tokens,
                    cost_nanousd=line.cost_nanousd,
                )
                for line in invoice.lines
            ),
            complete_until_ns=complete_until_ns,
        )

    async def _get(self, client: httpx.AsyncClient, provider: str, path: str, shape: type[Any]) -> Any:
        try:
            answer = await client.get(f"http://127.0.0.1:{self._ports[provider]}/_sim/{path}")
            answer.raise_for_status()
            return msgspec.json.decode(answer.content, type=shape)
        except (httpx.HTTPError, msgspec.DecodeError) as error:
            raise Unavailable(f"provider {provider} does not show its {path}: {error}") from error


def _client() -> httpx.AsyncClient:
    return httpx.AsyncClient(timeout=_TIMEOUT_S, trust_env=False)


class JournalRecorder:
    """Writes corrections through a journal slot of their own; the log role relays it as any other."""

    def __init__(self, machine: Machine) -> None:
        self._machine = machine

    async def record(self, corrections: Sequence[Correction]) -> None:
        """Return when all of them can be read from the log. Raises Unavailable."""
        journal = await self._machine.open_journal(SLOT)
        folder = self._machine.data_dir / "journals" / SLOT
        try:
            for correction in corrections:
                data = correction.data
                context = Context(
                    tenant=correction.tenant, request=correction.request, session=correction.session
                )
                receipt = journal.record(SIGNALS, partition_of(data.pool), data.attempt, data, context)
                await journal.wait_committed(receipt)
            last_seq = journal.committed_seq
            await journal.wait_synced(last_seq)
            async with in_time(DEADLINE_S, lambda: "the log role has not relayed the corrections"):
                while read_position(folder) <= last_seq:  # noqa: ASYNC110 - the log role moves it
                    await asyncio.sleep(POLL_S)
        finally:
            await journal.close()
