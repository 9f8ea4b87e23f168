"""The content of a read model as one figure per table: equal exactly when the sorted rows are."""

import hashlib
from collections.abc import Mapping

import duckdb
import msgspec

from tidegate.events.log.port import TopicPartition
from tidegate.projections.tables import TABLES, Table


class TableContent(msgspec.Struct, frozen=True):
    """Number of rows and the hash of their multiset."""

    rows: int
    hash: str


Content = dict[str, TableContent]


def content(
    connection: duckdb.DuckDBPyConnection, up_to: Mapping[TopicPartition, int] | None = None
) -> Content:
    """Content of every table, of rows from before the positions `up_to` (all by default)."""
    return {table.name: _table_content(connection, table, up_to) for table in TABLES}


def differing(left: Content, right: Content) -> list[str]:
    """Names of the tables whose content differs."""
    return sorted(name for name in left.keys() | right.keys() if left.get(name) != right.get(name))


def _table_content(
    connection: duckdb.DuckDBPyConnection, table: Table, up_to: Mapping[TopicPartition, int] | None
) -> TableContent:
    # Sums of the digests of all rows do not depend on the order of rows, as a hash of the sorted rows does
    # not, and need no memory for sorting. Two sums: 2 × 64 bits, each exact in a HUGEINT.
    name = table.name
    selected = f"SELECT md5_number(to_json({name})::VARCHAR) AS digest FROM {name}"  # noqa: S608 - our own name
    params: list[object] = []
    if up_to is not None:
        selected += " WHERE log_offset < list_extract($1::BIGINT[], log_partition + 1)"
        params = [_ends(table.topic, up_to)]
    halves = "sum((digest & 18446744073709551615::UHUGEINT)::HUGEINT), sum((digest >> 64)::HUGEINT)"
    rows, low, high = connection.execute(
        f"SELECT count(*), {halves} FROM ({selected})",  # noqa: S608 - built above
        params,
    ).fetchall()[0]
    digest = hashlib.sha256(f"{rows} {low} {high}".encode()).hexdigest()
    return TableContent(rows=int(rows), hash=digest)


def _ends(topic: str, up_to: Mapping[TopicPartition, int]) -> list[int]:
    count = 1 + max((where.partition for where in up_to if where.topic == topic), default=-1)
    return [up_to.get(TopicPartition(topic, partition), 0) for partition in range(count)]
