"""Simulated providers' own bills over HTTP, and corrections on their way into the log."""

import asyncio
import ssl
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from typing import Annotated, Any
from urllib.parse import urlsplit

import httpx
import msgspec

from tidegate.analytics.bills import AbsurdLine, Bill, BillLine, Correction
from tidegate.events.clock import Clock
from tidegate.events.config import Target
from tidegate.events.errors import Unavailable
from tidegate.events.journal.journal import read_position
from tidegate.events.journal.receipt import Context
from tidegate.events.money import COUNTS, Tokens
from tidegate.events.partition import partition_of
from tidegate.events.topics import SIGNALS
from tidegate.events.types import AttemptId, TargetId
from tidegate.runtime.machine import Machine
from tidegate.runtime.waiting import in_time

SLOT = "reconcile"
POLL_S = 0.02
PATIENCE_S = 5.0
"""How long a provider may go on serving what it served when a bill was asked for."""
DEADLINE_S = 30.0
_TIMEOUT_S = 30.0
NS_PER_S = 1_000_000_000


MAX_LINE_NANOUSD = 10**15
"""A million dollars: no call costs more, and sums of such lines stay exact wherever they are kept."""
MAX_LINE_COUNT = 2**31 - 1
"""No model reads or writes that many tokens in one call."""


class _Line(msgspec.Struct):
    attempt: str | None
    billed: bool
    tokens: Tokens
    cost_nanousd: Annotated[int, msgspec.Meta(ge=0, le=MAX_LINE_NANOUSD)]


class _Named(msgspec.Struct):
    """What is asked of a line that does not hold: whose it is."""

    attempt: str


class _Invoice(msgspec.Struct):
    provider: str
    lines: list[msgspec.Raw]
    total_nanousd: int
    since_s: float


class _State(msgspec.Struct):
    provider: str
    open: list[AttemptId]


class _Usage(msgspec.Struct):
    state: str
    totals: Mapping[str, int]


class NoBill(Unavailable):
    """An upstream does not show a bill as the simulator does; the message names its origin and what it said."""

    code = "no_bill"


def origin_of(target: Target) -> str:
    """`scheme://host:port` of a target: two targets there are on one bill."""
    url = urlsplit(target.base_url)
    host = f"[{url.hostname}]" if ":" in (url.hostname or "") else url.hostname
    return f"{url.scheme}://{host}:{url.port or (443 if url.scheme == 'https' else 80)}"


class Bills:
    """Bills of the simulated providers behind targets, one per origin.

    `former`: targets of earlier configs. Their attempts are still owed, so a bill is asked for; a provider that
    is gone shows none, and that is no error.
    """

    def __init__(self, targets: Iterable[Target], clock: Clock, former: Iterable[Target] = ()) -> None:
        self._origin_of: dict[TargetId, str] = {}
        self._ca_of: dict[str, str | None] = {}
        for target in targets:
            self._add(target)
        self._owed = frozenset(self._ca_of)
        for target in former:
            if target.id not in self._origin_of:
                self._add(target)
        self._clock = clock
        self.totals: dict[str, int] = {}
        """What each provider asks for in all, nano-dollars, fees included; filled by `fetch`."""

    async def fetch(self) -> Sequence[Bill]:
        """One bill per origin; what is still being served there is named as open. Raises Unavailable."""
        found: list[Bill] = []
        for origin in self._ca_of:
            with suppress(*(() if origin in self._owed else (NoBill,))):
                async with self._client(origin) as client:
                    found.append(await self._bill(client, origin))
        return found

    async def cost_nanousd(self, target: TargetId, attempt: str) -> int | None:
        """What a target's provider says of one attempt when asked for it alone; None while it is open."""
        async with self._client(self._origin_of[target]) as client:
            usage = await _get(client, f"usage/{attempt}", _Usage)
        return None if usage.state == "open" else usage.totals["cost_nanousd"]

    def _add(self, target: Target) -> None:
        origin = self._origin_of[target.id] = origin_of(target)
        self._ca_of[origin] = target.ca_file or self._ca_of.get(origin)

    def _client(self, origin: str) -> httpx.AsyncClient:
        ca_file = self._ca_of[origin]
        trusted = ssl.create_default_context(cafile=ca_file) if origin.startswith("https:") else False
        return httpx.AsyncClient(base_url=origin, timeout=_TIMEOUT_S, trust_env=False, verify=trusted)

    async def _bill(self, client: httpx.AsyncClient, origin: str) -> Bill:
        await _until_closed(client)
        # First what is open, then the lines: what ends in between is in both, and left out, not lost.
        complete_until_ns = self._clock.wall_ns()
        state = await _get(client, "state", _State)
        invoice = await _get(client, "invoice", _Invoice)
        self.totals[invoice.provider] = invoice.total_nanousd
        read = [read_line(invoice.provider, place, raw) for place, raw in enumerate(invoice.lines, 1)]
        return Bill(
            provider=invoice.provider,
            targets=frozenset(target for target, its in self._origin_of.items() if its == origin),
            lines=tuple(line for line in read if isinstance(line, BillLine)),
            absurd=tuple(line for line in read if isinstance(line, AbsurdLine)),
            complete_from_ns=round(invoice.since_s * NS_PER_S),
            complete_until_ns=complete_until_ns,
            open=frozenset(state.open),
        )


def read_line(provider: str, place: int, raw: msgspec.Raw) -> BillLine | AbsurdLine:
    """A line in bounds, or what is wrong with it: what a bill says goes into the log for ever."""
    try:
        line = msgspec.json.decode(raw, type=_Line)
        for name in COUNTS:
            count = getattr(line.tokens, name)
            if count is not None and not 0 <= count <= MAX_LINE_COUNT:
                raise msgspec.ValidationError(
                    f"Expected a count of 0 to {MAX_LINE_COUNT} - at `$.tokens.{name}`"
                )
    except msgspec.DecodeError as error:
        return AbsurdLine(provider=provider, line=place, attempt=_attempt_of(raw), reason=str(error))
    return BillLine(
        attempt=line.attempt, provider=provider, tokens=line.tokens, cost_nanousd=line.cost_nanousd
    )


def _attempt_of(raw: msgspec.Raw) -> AttemptId | None:
    try:
        return AttemptId(msgspec.json.decode(raw, type=_Named).attempt)
    except msgspec.DecodeError:
        return None


async def _until_closed(client: httpx.AsyncClient) -> None:
    """Give calls that are being served now some time to end: what is left of them is left out of this bill."""
    open_now = frozenset((await _get(client, "state", _State)).open)
    with suppress(TimeoutError):
        async with asyncio.timeout(PATIENCE_S):
            while not open_now.isdisjoint((await _get(client, "state", _State)).open):  # noqa: ASYNC110 - its
                await asyncio.sleep(POLL_S)


async def _get(client: httpx.AsyncClient, path: str, shape: type[Any]) -> Any:
    url = f"{str(client.base_url).rstrip('/')}/_sim/{path}"
    try:
        answer = await client.get(url)
    except httpx.HTTPError as error:
        raise NoBill(f"{url} does not answer: {str(error) or type(error).__name__}") from error
    if not answer.is_success:
        raise NoBill(f"{url} answers {answer.status_code}: no simulated provider is there")
    try:
        return msgspec.json.decode(answer.content, type=shape)
    except msgspec.DecodeError as error:
        raise NoBill(f"{url} does not answer as a simulated provider would: {error}") from error


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
