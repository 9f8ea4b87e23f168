"""Free and named SQL over a source, with rows as Python values."""

from collections.abc import Mapping
from typing import Any

import msgspec

from tidegate.analytics.catalog import Audience, named
from tidegate.analytics.ports import Params, SqlSource


class Result(msgspec.Struct, frozen=True):
    """Rows of an answer: integers exact, times and decimals as text, unknown as None."""

    columns: tuple[str, ...]
    types: tuple[str, ...]
    rows: list[list[Any]]
    truncated: bool

    def records(self) -> list[dict[str, Any]]:
        """Rows by column name."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]


_rows = msgspec.json.Decoder(list[list[Any]])


async def ask(
    source: SqlSource,
    sql: str,
    params: Params | None = None,
    *,
    max_rows: int | None = None,
    timeout_s: float | None = None,
) -> Result:
    """Free SQL: exactly one SELECT; for operators only. Raises Refused, Unavailable."""
    answer = await source.query(sql, params, max_rows=max_rows, timeout_s=timeout_s)
    return Result(answer.columns, answer.types, _rows.decode(answer.rows), answer.truncated)


async def ask_named(
    source: SqlSource,
    name: str,
    given: Mapping[str, Any] | None = None,
    *,
    audience: Audience = "operator",
    max_rows: int | None = None,
    timeout_s: float | None = None,
) -> Result:
    """A named query with its parameters. Raises UnknownQuery, Refused, Unavailable."""
    query = named(name, audience)
    bound = query.bind({} if given is None else given)
    return await ask(source, query.sql, bound, max_rows=max_rows, timeout_s=timeout_s)
