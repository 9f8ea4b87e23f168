"""One archived file: raw records with their positions, and the envelope columns that are cheap to have."""

# pyarrow has no types of its own; what this module takes from it is typed again at its own edge.
# mypy: disable-error-code="attr-defined,no-untyped-call,name-defined"

import os
from collections.abc import Sequence
from datetime import UTC, datetime
from pathlib import Path

import msgspec
import pyarrow as pa
import pyarrow.parquet as pq

from tidegate.events.archive_manifest import ArchivedFile, file_sha256, sync_folder
from tidegate.events.errors import LogCorrupt
from tidegate.events.log.port import Record, TopicPartition

GROUP_ROWS = 5_000
"""One read of the log brings no more than a row group."""

PART = ".part"
_FORMAT = "1"
_SCHEMA = pa.schema(
    [
        pa.field("offset", pa.int64(), nullable=False),
        pa.field("append_ns", pa.int64(), nullable=False),
        pa.field("key", pa.binary(), nullable=False),
        pa.field("value", pa.binary()),
        pa.field("type", pa.string()),
        pa.field("ts", pa.int64()),
        pa.field("tenant", pa.string()),
    ]
)


class _Head(msgspec.Struct, gc=False):
    type: str | None = None
    ts: int | None = None
    tenant: str | None = None


_heads = msgspec.json.Decoder(_Head)
_NO_HEAD = _Head()


class FileFacts(msgspec.Struct, frozen=True):
    """What a file says of itself."""

    topic: str
    partition: int
    start: int
    end: int
    first: int
    last: int
    rows: int


class Piece(msgspec.Struct, frozen=True):
    """Records of one partition and one day, all there are between the positions `start` and `end`."""

    where: TopicPartition
    start: int
    end: int
    records: list[Record]


def utc_day(append_ns: int) -> str:
    """Day of an append time, as in `2026-11-30`."""
    return datetime.fromtimestamp(append_ns // 1_000_000_000, UTC).date().isoformat()


def relative_path(where: TopicPartition, day: str, first: int, last: int) -> str:
    """Where a file lies in the archive: folders that DuckDB and Arrow read as columns."""
    folder = f"topic={where.topic}/day={day}/partition={where.partition:02d}"
    return f"{folder}/{first:020d}-{last:020d}.parquet"


def write_piece(root: Path, piece: Piece) -> ArchivedFile:
    """Write a piece aside, sync it, and rename it into place. Returns its manifest line."""
    records = piece.records
    name = relative_path(piece.where, utc_day(records[0].append_ns), records[0].offset, records[-1].offset)
    path = root / name
    _make_folders(path.parent)
    aside = path.with_name(path.name + PART)
    pq.write_table(
        _table(records).replace_schema_metadata(_metadata(piece)),
        aside,
        row_group_size=GROUP_ROWS,
        compression="zstd",
        use_dictionary=["type", "tenant"],  # pyright: ignore[reportArgumentType] - inferred from its default
        write_page_checksum=True,
    )
    with aside.open("rb") as file:
        os.fsync(file.fileno())
    aside.replace(path)
    sync_folder(path.parent)
    return entry_of(root, name, piece)


def entry_of(root: Path, name: str, piece: Piece) -> ArchivedFile:
    """The manifest line of a file in place that holds this piece."""
    times_ns = [record.append_ns for record in piece.records]
    return ArchivedFile(
        path=name,
        topic=piece.where.topic,
        partition=piece.where.partition,
        day=utc_day(times_ns[0]),
        start=piece.start,
        end=piece.end,
        first=piece.records[0].offset,
        last=piece.records[-1].offset,
        rows=len(times_ns),
        size_bytes=(root / name).stat().st_size,
        sha256=file_sha256(root / name),
        first_append_ns=min(times_ns),
        last_append_ns=max(times_ns),
    )


def read_facts(path: Path) -> FileFacts:
    """What a file says of itself. Raises LogCorrupt."""
    try:
        with pq.ParquetFile(path) as file:
            return _facts(file)
    except (pa.ArrowException, OSError, KeyError, ValueError, IndexError, AttributeError) as error:
        raise LogCorrupt(f"{path}: not an archived file ({error}); it was left untouched") from error


def read_group(path: Path, position: int, expected: ArchivedFile | None = None) -> list[Record]:
    """Records of the row group that holds the first record at or after `position`; empty past the last.

    Raises LogCorrupt when the file is damaged, missing or not the one that `expected` describes.
    """
    try:
        with pq.ParquetFile(path, page_checksum_verification=True) as file:
            facts = _facts(file)
            if expected is not None and facts != _facts_of(expected):
                raise LogCorrupt(f"{path}: holds {facts}, but the manifest says {_facts_of(expected)}")
            for index in range(file.num_row_groups):
                if _offsets(file, index)[1] >= position:
                    return _records(file, index, facts)
            return []
    except (pa.ArrowException, OSError, KeyError, ValueError, IndexError, AttributeError) as error:
        raise LogCorrupt(f"{path}: damaged or missing ({error}); it was left untouched") from error


def read_piece(path: Path) -> Piece:
    """All of a file. Raises LogCorrupt when it is damaged or its rows are not those it names."""
    facts = read_facts(path)
    records: list[Record] = []
    while group := read_group(path, records[-1].offset + 1 if records else 0):
        records += group
    if (records[0].offset, records[-1].offset, len(records)) != (facts.first, facts.last, facts.rows):
        raise LogCorrupt(f"{path}: its rows are not those it names; it was left untouched")
    return Piece(TopicPartition(facts.topic, facts.partition), facts.start, facts.end, records)


def _metadata(piece: Piece) -> dict[str, str]:
    return {
        "format": _FORMAT,
        "topic": piece.where.topic,
        "partition": str(piece.where.partition),
        "start": str(piece.start),
        "end": str(piece.end),
    }


def _facts(file: pq.ParquetFile) -> FileFacts:
    told = {key.decode(): value.decode() for key, value in file.schema_arrow.metadata.items()}
    if told["format"] != _FORMAT:
        raise ValueError(f"format {told['format']}, but this version knows {_FORMAT}")
    groups = file.num_row_groups
    return FileFacts(
        topic=told["topic"],
        partition=int(told["partition"]),
        start=int(told["start"]),
        end=int(told["end"]),
        first=_offsets(file, 0)[0],
        last=_offsets(file, groups - 1)[1],
        rows=file.metadata.num_rows,
    )


def _facts_of(entry: ArchivedFile) -> FileFacts:
    return FileFacts(
        entry.topic, entry.partition, entry.start, entry.end, entry.first, entry.last, entry.rows
    )


def _offsets(file: pq.ParquetFile, group: int) -> tuple[int, int]:
    statistics = file.metadata.row_group(group).column(0).statistics
    return int(statistics.min), int(statistics.max)


def _records(file: pq.ParquetFile, group: int, facts: FileFacts) -> list[Record]:
    columns = file.read_row_group(group, columns=["offset", "key", "value", "append_ns"], use_threads=False)
    rows = zip(
        *(columns.column(name).to_pylist() for name in ("offset", "key", "value", "append_ns")), strict=True
    )
    return [Record(facts.topic, facts.partition, *row) for row in rows]


def _table(records: Sequence[Record]) -> pa.Table:
    heads = [_head(record.value) for record in records]
    return pa.table(
        [
            [record.offset for record in records],
            [record.append_ns for record in records],
            [record.key for record in records],
            [record.value for record in records],
            [head.type for head in heads],
            [head.ts for head in heads],
            [head.tenant for head in heads],
        ],
        schema=_SCHEMA,
    )


def _head(value: bytes | None) -> _Head:
    if value is None:
        return _NO_HEAD
    try:
        head = _heads.decode(value)
    except msgspec.DecodeError:
        return _NO_HEAD  # no envelope: the raw value is archived all the same
    in_range = head.ts is None or -(1 << 63) <= head.ts < 1 << 63
    return head if in_range else _NO_HEAD


def _make_folders(folder: Path) -> None:
    """Create a folder, each new name synced in its parent."""
    if not folder.exists():
        _make_folders(folder.parent)
        folder.mkdir()
        sync_folder(folder.parent)
