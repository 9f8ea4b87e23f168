"""What analytics needs from other rooms: filled by the runtime."""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol

import msgspec

from tidegate.analytics.bills import Bill, Correction
from tidegate.events.config import Routing
from tidegate.events.decision import DecisionMade
from tidegate.events.snapshots import RateSnapshot

Params = Sequence[Any] | Mapping[str, Any]


class SqlAnswer(Protocol):
    """A result as it comes from the read model; `rows` is a JSON array of arrays."""

    @property
    def columns(self) -> tuple[str, ...]:
        """Names."""
        ...

    @property
    def types(self) -> tuple[str, ...]:
        """DuckDB's names of the types."""
        ...

    @property
    def rows(self) -> msgspec.Raw:
        """Integers exact, times and decimals as text, unknown as null."""
        ...

    @property
    def truncated(self) -> bool:
        """There were more rows than asked for."""
        ...


class SqlSource(Protocol):
    """Answers one SELECT: the projector's socket (`client`), or its file opened read-only."""

    async def query(
        self,
        sql: str,
        params: Params | None = None,
        *,
        max_rows: int | None = None,
        timeout_s: float | None = None,
    ) -> SqlAnswer:
        """Raises Refused (the query), Unavailable (try later)."""
        ...


class Verification(Protocol):
    """How a replayed decision compares."""

    @property
    def outcome(self) -> str:
        """`identical`, `different`, `other_version` or `input_missing`."""
        ...

    @property
    def detail(self) -> str | None:
        """The first difference, the other version, or the missing input."""
        ...


class ReplayPort(Protocol):
    """The planner's own replay: decides again from recorded inputs and compares bit by bit."""

    def __call__(
        self, decision: DecisionMade, routing: Routing, snapshots: Mapping[str, RateSnapshot], /
    ) -> Verification:
        """`snapshots` holds, by subject, the version each candidate of the decision had read."""
        ...


class BillSource(Protocol):
    """Fetches what a provider says it billed."""

    async def fetch(self) -> Sequence[Bill]:
        """One bill per provider. Raises Unavailable."""
        ...


class Recorder(Protocol):
    """Writes corrections into the log, as the reconcile role."""

    async def record(self, corrections: Sequence[Correction]) -> None:
        """Return when all of them can be read from the log. Raises Unavailable."""
        ...
