"""Reads recorded traffic: coding-agent sessions (JSON Lines) and the Azure LLM inference trace (CSV). Pure but
for reading the file."""

import csv
import gzip
import zlib
from collections.abc import Iterable, Iterator
from datetime import datetime
from pathlib import Path
from typing import Annotated, NamedTuple

import msgspec
from msgspec import Meta

from tidegate.events.errors import Refused
from tidegate.runtime.demo.workload import Span, TimedRequest, Workload, in_order, tenant_of

AZURE_HEADER = ["TIMESTAMP", "ContextTokens", "GeneratedTokens"]
SESSIONS_DEFAULT = 40
ROWS_DEFAULT = 2_000
MAX_GAP_S = 600.0
"""Longer pauses say that somebody went home: they load nothing and outlive every cache and short window."""
STAGGER_S = 60.0
"""Sessions carry no calendar time: the n-th one starts so many seconds after the one before."""
_AZURE_BLOCK_TOKENS = 64
_GZIP = b"\x1f\x8b"

Count = Annotated[int, Meta(ge=0)]
Tokens = Annotated[int, Meta(ge=1)]


class TraceInvalid(Refused):
    """The file is no trace that can be read; the message has its line."""

    code = "trace_invalid"


class _Entry(msgspec.Struct, kw_only=True):
    t: Annotated[float, Meta(ge=0)]
    type: str
    input: Tokens | None = msgspec.field(name="in", default=None)
    output: Count | None = msgspec.field(name="out", default=None)
    hash_runs: tuple[tuple[int, Count], ...] = ()
    requests: tuple["_Entry", ...] | None = None
    tool_tokens: Count = 0
    system_tokens: Count = 0


class _Session(msgspec.Struct, kw_only=True):
    id: str
    requests: tuple[_Entry, ...]
    block_size: Tokens = 64
    tool_tokens: Count = 0
    system_tokens: Count = 0


class _Placed(NamedTuple):
    """An entry at its time in the session, with the strand and head it belongs to."""

    at_s: float
    strand: int
    entry: _Entry
    tool_tokens: int
    system_tokens: int


def read_trace(path: Path, sessions: int | None = None, max_gap_s: float = MAX_GAP_S) -> Workload:
    """The first `sessions` sessions of a trace (rows, where it has no sessions). Raises TraceInvalid."""
    lines = _lines(path)
    first = next(lines, None)
    if first is None:
        raise TraceInvalid(f"{path}: the file is empty")
    if first.lstrip().startswith("{"):
        return _sessions(path, _again(first, lines), sessions or SESSIONS_DEFAULT, max_gap_s)
    if next(csv.reader([first])) == AZURE_HEADER:
        return _azure(path, lines, sessions or ROWS_DEFAULT)
    raise TraceInvalid(
        f"{path}:1: neither a JSON object per line (sessions) nor the CSV header {','.join(AZURE_HEADER)}"
    )


def _again(first: str, rest: Iterable[str]) -> Iterator[str]:
    yield first
    yield from rest


def _lines(path: Path) -> Iterator[str]:
    try:
        with path.open("rb") as file:
            packed = file.read(2) == _GZIP
        with gzip.open(path, "rt", encoding="utf-8") if packed else path.open(encoding="utf-8") as text:
            yield from text
    except (OSError, EOFError, zlib.error) as error:
        raise TraceInvalid(f"{path} cannot be read: {error}") from error
    except UnicodeDecodeError as error:
        raise TraceInvalid(f"{path}: it is not UTF-8 text") from error


def _sessions(path: Path, lines: Iterable[str], wanted: int, max_gap_s: float) -> Workload:
    decoder = msgspec.json.Decoder(_Session)
    requests: list[TimedRequest] = []
    shortened = skipped = found = 0
    for number, line in enumerate(lines, 1):
        if found == wanted:
            break
        if not line.strip():
            continue
        try:
            session = decoder.decode(line)
            placed = sorted(_flatten(session), key=lambda each: (each.at_s, each.strand))
        except (msgspec.DecodeError, TraceInvalid) as error:
            raise TraceInvalid(f"{path}:{number}: {error}") from error
        times, cut = _warp([each.at_s for each in placed], max_gap_s)
        shortened += cut
        start_s = found * STAGGER_S
        answered = [
            _request(session, each, start_s + at_s, found)
            for each, at_s in zip(placed, times, strict=True)
            if each.entry.output
        ]
        skipped += len(placed) - len(answered)
        requests += answered
        found += 1
    if not requests:
        raise TraceInvalid(f"{path}: no session with an answered request in it")
    return Workload(
        origin=path.name, requests=in_order(requests), sessions=found, shortened=shortened, skipped=skipped
    )


def _flatten(session: _Session) -> Iterator[_Placed]:
    """Requests of a session and, as strands of their own, of its sub-agents, all from the session's start."""
    strands = iter(range(1, 1 << 30))

    def walk(
        entries: Iterable[_Entry], base_s: float, strand: int, tool_tokens: int, system_tokens: int
    ) -> Iterator[_Placed]:
        for entry in entries:
            if entry.requests is not None:
                yield from walk(
                    entry.requests, base_s + entry.t, next(strands), entry.tool_tokens, entry.system_tokens
                )
            elif entry.input is None or entry.output is None:
                raise TraceInvalid(f"session {session.id}: the request at t={entry.t} lacks `in` or `out`")
            else:
                yield _Placed(base_s + entry.t, strand, entry, tool_tokens, system_tokens)

    yield from walk(session.requests, 0.0, 0, session.tool_tokens, session.system_tokens)


def _warp(times: list[float], max_gap_s: float) -> tuple[list[float], int]:
    """The same times with no pause of the whole session above `max_gap_s`, and how many were cut."""
    warped: list[float] = []
    removed, cut, last = 0.0, 0, times[0] if times else 0.0
    for at_s in times:
        excess = at_s - last - max_gap_s
        if excess > 0:
            removed += excess
            cut += 1
        warped.append(at_s - removed)
        last = at_s
    return warped, cut


def _request(session: _Session, placed: _Placed, at_s: float, index: int) -> TimedRequest:
    entry = placed.entry
    return TimedRequest(
        session=session.id,
        strand=placed.strand,
        tenant=tenant_of(index),
        at_s=at_s,
        spans=tuple(Span(session.id, first, count) for first, count in entry.hash_runs),
        block_tokens=session.block_size,
        input_tokens=entry.input or 1,
        output_tokens=entry.output or 1,
        tool_tokens=placed.tool_tokens,
        system_tokens=placed.system_tokens,
        stream=entry.type == "s",
    )


def _azure(path: Path, lines: Iterable[str], wanted: int) -> Workload:
    requests: list[TimedRequest] = []
    start: datetime | None = None
    skipped = 0
    # The header is line 1.
    for number, row in enumerate(csv.reader(lines), 2):
        if len(requests) + skipped == wanted:
            break
        if not row:
            continue
        try:
            at, context, generated = _azure_row(row)
        except ValueError as error:
            raise TraceInvalid(f"{path}:{number}: {error}") from error
        start = start or at
        if not generated:
            skipped += 1
            continue
        requests.append(_azure_request(len(requests), (at - start).total_seconds(), context, generated))
    if not requests:
        raise TraceInvalid(f"{path}: the header is there, but no row with an answer")
    return Workload(origin=path.name, requests=in_order(requests), sessions=len(requests), skipped=skipped)


def _azure_row(row: list[str]) -> tuple[datetime, int, int]:
    if len(row) != len(AZURE_HEADER):
        raise ValueError(f"{len(row)} fields, {len(AZURE_HEADER)} expected")
    stamp, context, generated = row
    # Seven digits of a second; Python reads six.
    whole, _, part = stamp.partition(".")
    at = datetime.fromisoformat(f"{whole}.{part[:6] or '0'}".ljust(len(whole) + 7, "0"))
    tokens = int(context), int(generated)
    if tokens[0] < 1 or tokens[1] < 0:
        raise ValueError(f"{context} input and {generated} output tokens are no request")
    return at, *tokens


def _azure_request(index: int, at_s: float, context: int, generated: int) -> TimedRequest:
    # The trace names neither sessions nor prefixes: every row is a session of its own with a text of its own.
    session = f"row-{index + 1:05d}"
    return TimedRequest(
        session=session,
        strand=0,
        tenant=tenant_of(index),
        at_s=at_s,
        spans=(Span(session, 0, context // _AZURE_BLOCK_TOKENS),),
        block_tokens=_AZURE_BLOCK_TOKENS,
        input_tokens=context,
        output_tokens=generated,
    )
