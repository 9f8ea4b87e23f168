"""The one DuckDB writer: opens the file, locks its settings, applies batches, one transaction each."""

import shutil
from collections import defaultdict
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from threading import Lock

import duckdb

from tidegate.events.log.port import TopicPartition
from tidegate.projections.batch import MarkRow, Part
from tidegate.projections.ddl import schema_digest, schema_sql
from tidegate.projections.errors import StoreTaken, StoreUnusable
from tidegate.projections.limits import Limits
from tidegate.projections.query import SPILL, Source
from tidegate.projections.rows import Row
from tidegate.projections.tables import TABLES, TOPICS

Config = dict[str, str | bool | int | float | list[str]]

_UPDATE_POSITIONS = """
UPDATE positions SET next_offset = new.next_offset
FROM (
    SELECT unnest($1::VARCHAR[]) AS topic, unnest($2::INTEGER[]) AS log_partition,
           unnest($3::BIGINT[]) AS next_offset
) AS new
WHERE positions.topic = new.topic AND positions.log_partition = new.log_partition
"""
_MERGE_MARKS = """
MERGE INTO marks USING (
    SELECT unnest($1::VARCHAR[]) AS topic, unnest($2::INTEGER[]) AS log_partition,
           unnest($3::VARCHAR[]) AS source, unnest($4::BIGINT[]) AS last_seq,
           unnest($5::BIGINT[]) AS closed_ns
) AS new
ON marks.topic = new.topic AND marks.log_partition = new.log_partition AND marks.source = new.source
WHEN MATCHED THEN UPDATE SET last_seq = new.last_seq, closed_ns = new.closed_ns
WHEN NOT MATCHED THEN INSERT
    VALUES (new.topic, new.log_partition, new.source, new.last_seq, new.closed_ns)
"""
_FORGET_MARKS = "DELETE FROM marks WHERE topic = $1 AND log_partition = $2 AND list_contains($3, source)"


def engine_config(limits: Limits) -> Config:
    """Settings of a database that only ever touches its own file.

    One thread: queries run in forks of this process, and threads do not come along. It is our own SQL that runs
    here; each fork sets what a query may use, closes external access and locks the settings.
    """
    return {
        "memory_limit": f"{limits.memory_mb}MB",
        "temp_directory": "",
        "threads": 1,
        "async_threads": 0,
        "autoinstall_known_extensions": False,
        "autoload_known_extensions": False,
        "allow_community_extensions": False,
        "python_enable_replacements": False,
    }


class Store:
    """An open read model. One thread at a time works in it: queries run in forks of it (`source`)."""

    def __init__(self, path: Path, connection: duckdb.DuckDBPyConnection) -> None:
        self.path = path
        self.connection = connection
        self.source = Source(connection, path, Lock())
        self._appenders = {table.name: connection.appender(table.name) for table in TABLES}

    @classmethod
    def open(cls, path: Path, limits: Limits) -> "Store":
        """Open or create the database.

        Raises StoreTaken (another process has it), StoreUnusable (damaged, or of another schema).
        """
        try:
            connection = duckdb.connect(str(path), config=engine_config(limits))
        except duckdb.Error as error:
            if "Could not set lock" in str(error):
                raise StoreTaken(f"{path} is open in another process") from error
            raise StoreUnusable(f"{path} cannot be opened: {error}") from error
        for left_behind in path.parent.glob(f"{path.name}{SPILL}*"):  # of a process that was killed
            shutil.rmtree(left_behind, ignore_errors=True)
        try:
            _adopt_schema(connection, path)
            return cls(path, connection)
        except duckdb.Error as error:
            connection.close()
            raise StoreUnusable(f"{path} cannot be read: {error}") from error
        except BaseException:
            connection.close()
            raise

    def positions(self) -> dict[TopicPartition, int]:
        """Next offset to read, for every folded partition."""
        with self.source.alone:
            rows = self.connection.execute(
                "SELECT topic, log_partition, next_offset FROM positions"
            ).fetchall()
        return {TopicPartition(topic, partition): position for topic, partition, position in rows}

    def marks(self) -> list[MarkRow]:
        """Every kept mark."""
        with self.source.alone:
            rows = self.connection.execute(
                "SELECT topic, log_partition, source, last_seq, closed_ns FROM marks"
            ).fetchall()
        return [MarkRow(*row) for row in rows]

    def apply(self, parts: Sequence[Part]) -> None:
        """Add the rows of these partitions and move their positions and marks: all or nothing.

        Raises duckdb.Error; nothing took effect then.
        """
        rows: defaultdict[str, list[Row]] = defaultdict(list)
        for part in parts:
            for table, added in part.rows.items():
                rows[table] += added
        with self.source.alone:
            self._apply(parts, rows)

    def _apply(self, parts: Sequence[Part], rows: Mapping[str, list[Row]]) -> None:
        self.connection.execute("BEGIN TRANSACTION")
        try:
            for table, added in rows.items():
                appender = self._appenders[table]
                appender.append_rows(added)
                appender.flush()
            self._move(parts)
            self.connection.execute("COMMIT")
        except BaseException:
            for table in rows:
                self._appenders[table].clear()
            with suppress(duckdb.Error):
                self.connection.execute("ROLLBACK")
            raise

    def _move(self, parts: Sequence[Part]) -> None:
        self.connection.execute(
            _UPDATE_POSITIONS,
            [
                [part.where.topic for part in parts],
                [part.where.partition for part in parts],
                [part.position for part in parts],
            ],
        )
        for part in parts:
            if part.forgotten:
                self.connection.execute(_FORGET_MARKS, [*part.where, part.forgotten])
        marks = [mark for part in parts for mark in part.marks]
        if marks:
            self.connection.execute(_MERGE_MARKS, [list(column) for column in zip(*marks, strict=True)])

    def close(self) -> None:
        """Checkpoint and close; no query may run any more (`QueryEngine.close`)."""
        self._appenders.clear()
        self.connection.close()


def _adopt_schema(connection: duckdb.DuckDBPyConnection, path: Path) -> None:
    tables = connection.execute("SELECT count(*) FROM duckdb_tables()").fetchone()
    if tables == (0,):
        _create(connection)
        return
    digests = connection.execute("SELECT schema_digest FROM meta").fetchall()
    if digests != [(schema_digest(),)]:
        raise StoreUnusable(f"{path} has another schema")


def _create(connection: duckdb.DuckDBPyConnection) -> None:
    places = [(topic.name, partition) for topic in TOPICS for partition in range(topic.partitions)]
    connection.execute("BEGIN TRANSACTION")
    connection.execute(schema_sql())
    connection.execute("INSERT INTO meta VALUES ($1)", [schema_digest()])
    connection.execute(
        "INSERT INTO positions SELECT unnest($1::VARCHAR[]), unnest($2::INTEGER[]), 0",
        [[topic for topic, _ in places], [partition for _, partition in places]],
    )
    connection.execute("COMMIT")
