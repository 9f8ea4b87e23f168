"""Judges a fleet after its crashes: what the log holds against the providers' bills and the clients' word."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import msgspec

from support.fleet import HIDING, Fleet, until
from support.log_reading import read_all
from support.losses import Event, slot_of, tell
from support.traffic import Asked, Traffic
from tidegate.analytics.client import SocketSource
from tidegate.analytics.errors import QueryUnavailable
from tidegate.analytics.ledger import read_ledger
from tidegate.estimator.engine import MarksRow
from tidegate.estimator.fold import Signal, fold
from tidegate.estimator.model_time import in_log_time
from tidegate.estimator.state import Row, State
from tidegate.events import codec
from tidegate.events.config import Routing
from tidegate.events.log.port import EventLog, Record, TopicPartition
from tidegate.events.partition import PARTITIONS, partition_of
from tidegate.events.quota import duration_ns
from tidegate.events.signals import AttemptStarted, UsageSettled
from tidegate.events.topics import DEADLETTER, REQUESTS, SIGNALS, SPEND, STATE
from tidegate.gateway.session import session_in_headers, tenant_key

RELAYED = (REQUESTS, SIGNALS, SPEND, DEADLETTER)


@dataclass
class Book:
    """The relayed topics, read whole: each event once, in order per partition, as every consumer sees it."""

    events: list[Event] = field(default_factory=list)
    repeated: list[Event] = field(default_factory=list)
    """Records that a consumer drops: the relay sent them again."""
    overtaken: list[Event] = field(default_factory=list)
    """Those of them that no consumer has seen before: a later one of their source stands before them."""
    started: dict[str, Event] = field(default_factory=dict)
    settled: dict[str, list[UsageSettled]] = field(default_factory=lambda: defaultdict(list))

    def take(self, event: Event) -> None:
        self.events.append(event)
        if isinstance(event.data, AttemptStarted):
            assert event.data.attempt not in self.started, f"attempt {event.data.attempt} began twice"
            self.started[event.data.attempt] = event
        elif isinstance(event.data, UsageSettled):
            self.settled[event.data.attempt].append(event.data)

    def sessions(self, attempts: Iterable[str]) -> set[str | None]:
        return {self.started[attempt].envelope.session for attempt in attempts}


async def read_book(log: EventLog) -> Book:
    """Everything the relay ever sent, repetitions dropped by (source, partition, seq)."""
    book = Book()
    marks: dict[tuple[TopicPartition, str], int] = {}
    seen: set[tuple[TopicPartition, str, int]] = set()
    places = [TopicPartition(topic.name, p) for topic in RELAYED for p in range(PARTITIONS)]
    for record in await read_all(log, places):
        assert record.value is not None
        envelope = codec.decode_envelope(record.value)
        where = TopicPartition(record.topic, record.partition)
        event = Event(where, record.offset, envelope, codec.decode_data(envelope))
        key = (where, envelope.source)
        if envelope.seq <= marks.get(key, 0):
            book.repeated.append(event)
            if (*key, envelope.seq) not in seen:
                book.overtaken.append(event)
            continue
        marks[key] = envelope.seq
        seen.add((*key, envelope.seq))
        book.take(event)
    return book


def check_nothing_is_lost(book: Book, at_least: Mapping[str, int], data_dir: Path | None = None) -> None:
    """The seqs of each journal slot stand in the log without a gap, from 1 to at least the newest that was
    ever durable in it (`at_least`, by slot), each once. A failure tells what `data_dir` knows of them."""
    seqs: dict[str, Counter[int]] = defaultdict(Counter)
    ends: dict[str, set[int]] = defaultdict(set)
    last: dict[str, int] = {}
    for event in book.events:
        envelope = event.envelope
        if envelope.type == "SourceClosed":
            ends[envelope.source].add(event.data.last_seq)
        else:
            seqs[slot_of(event)][envelope.seq] += 1
            last[envelope.source] = max(envelope.seq, last.get(envelope.source, 0))
    for slot in seqs.keys() | at_least.keys():
        found = seqs[slot]
        through = max(*found, at_least.get(slot, 0), 0)
        wrong = [seq for seq in range(1, through + 1) if found[seq] != 1]
        assert not wrong, tell(slot, wrong, book.events, book.repeated, data_dir)
    for source, told in ends.items():
        assert told == {last[source]}, f"{source} ended at {last[source]}, its SourceClosed say {told}"


def check_settlements(book: Book, asked: Iterable[Asked]) -> None:
    """Each attempt has exactly one settlement, and each answer a client saw whole has its own."""
    for attempt in book.started:
        assert len(book.settled[attempt]) == 1, (attempt, book.settled[attempt])
    assert set(book.settled) == set(book.started)
    completed = {
        book.started[attempt].envelope.request
        for attempt, (settled,) in book.settled.items()
        if settled.outcome == "completed"
    }
    for one in asked:
        if one.fate == "finished":
            assert one.request in completed, f"{one} has no settlement"


class Billed(NamedTuple):
    """What providers bill, by attempt, and the fault that struck it."""

    nanousd: dict[str, int]
    faults: dict[str, str]


async def billed(fleet: Fleet) -> Billed:
    """Every provider's invoice and log."""
    found = Billed({}, {})
    for provider in fleet.ports:
        for line in (await fleet.sim(provider, "invoice"))["lines"]:
            attempt = line["attempt"]
            found.nanousd[attempt] = found.nanousd.get(attempt, 0) + line["cost_nanousd"]
        for record in (await fleet.sim(provider, "log"))["records"]:
            if record["fault"] is not None:
                found.faults[record["attempt"]] = record["fault"]
    return found


def check_bills(book: Book, bills: Billed, sessions_at_kills: set[str]) -> None:
    """What was reported or is unbilled equals the bill at once; all else has a reason to be unknown."""
    assert bills.nanousd.keys() <= book.started.keys(), "billed, but no attempt of ours"
    for attempt, (settled,) in book.settled.items():
        if settled.basis != "estimated":
            assert settled.cost_nanousd == bills.nanousd.get(attempt, 0), (
                settled,
                bills.nanousd.get(attempt),
            )
    for attempt in bills.nanousd:
        (settled,) = book.settled[attempt]
        if settled.basis != "reported":
            in_flight = book.started[attempt].envelope.session in sessions_at_kills
            hidden = bills.faults.get(attempt) in HIDING
            assert in_flight or hidden, f"{settled} has no excuse; fault {bills.faults.get(attempt)}"


def sessions_of(fleet: Fleet, markers: Iterable[str]) -> set[str]:
    """Session ids as they stand in events."""
    key = tenant_key(fleet.machine.data_key(), "acme")
    found = [session_in_headers({b"x-tidegate-session": marker.encode()}, key) for marker in markers]
    return {session.id for session in found if session is not None}


async def reconciled(fleet: Fleet, log: EventLog, bills: Billed) -> None:
    """`tidegate reconcile`; afterwards the ledger equals the bills, attempt by attempt."""
    await fleet.command("reconcile")
    for attempt, entry in (await read_ledger(log)).entries.items():
        assert entry.ledger_nanousd == bills.nanousd.get(attempt, 0), entry


# --- the estimator


async def positions_of(log: EventLog) -> dict[int, int]:
    """Per partition of signals, the position that the stored state includes."""
    found = {}
    newest, _ = await log.latest(STATE.name)
    for key, record in newest.items():
        if key.startswith(b"marks:") and record.value is not None:
            found[record.partition] = msgspec.json.decode(record.value, type=MarksRow).position
    return found


async def wait_estimated(log: EventLog) -> None:
    """Until the stored state includes every signal the log holds now, however long: it only may not stand still."""
    ends = {p: await log.end(TopicPartition(SIGNALS.name, p)) for p in range(PARTITIONS)}
    at: dict[int, int] = {}
    left = sum(ends.values())

    async def goes_on() -> bool:
        at.update(await positions_of(log))
        return missing() < left

    def missing() -> int:
        return sum(max(0, end - at.get(p, 0)) for p, end in ends.items())

    while left:
        await until(goes_on, lambda: f"the estimator to go on: at {at}, ends {ends}")
        left = missing()


async def stored_rows(log: EventLog) -> dict[str, bytes]:
    """The state rows as they stand in the log, without what counts publishing."""
    newest, _ = await log.latest(STATE.name)
    return _plain(
        msgspec.json.decode(record.value, type=Row)
        for key, record in newest.items()
        if record.value is not None and not key.startswith(b"marks:")
    )


def clean_rows(records: Iterable[Record], routing: Routing) -> dict[str, bytes]:
    """State rows of one fold over a whole signals topic, repetitions dropped, in a process that never died."""
    state, signals = State(), []
    for pool in routing.pools:
        if not pool.windows:
            continue  # it has a row once something happened to it
        index = state.pool(pool.id, partition_of(pool.id))
        for window in pool.windows:
            state.window_of(
                index, window.id, duration_ns(window), first_request=window.kind == "first_request"
            )
    marks: dict[tuple[int, str], int] = {}
    for record in records:
        assert record.value is not None
        envelope = codec.decode_envelope(record.value)
        key = (record.partition, envelope.source)
        if envelope.seq > marks.get(key, 0):
            marks[key] = envelope.seq
            data, ts = in_log_time(codec.decode_data(envelope), envelope.ts, record.append_ns)
            signals.append(Signal(record.partition, msgspec.structs.replace(envelope, ts=ts), data))
    fold(state, signals)
    rows = [state.target_row(target) for target in state.targets]
    return _plain([*rows, *(state.pool_row(pool) for pool in state.pools)])


def _plain(rows: Iterable[Row]) -> dict[str, bytes]:
    found = {}
    for row in rows:
        row.version = 0
        for window in row.windows:
            window.status = 0
        row.windows.sort(key=lambda window: window.id)
        found[row.subject] = msgspec.json.encode(row)
    return found


async def check_state(log: EventLog, routing: Routing) -> int:
    """The estimator's state equals a clean fold of the log, bit by bit. Returns how many rows there are."""
    await wait_estimated(log)
    places = [TopicPartition(SIGNALS.name, p) for p in range(PARTITIONS)]
    expected = clean_rows(await read_all(log, places), routing)
    stored = await stored_rows(log)
    strange = stored.keys() ^ expected.keys()
    assert not strange, f"only stored, or only folded: {sorted(strange)}"
    assert expected, "nothing was folded"
    wrong = [subject for subject, row in expected.items() if stored[subject] != row]
    assert not wrong, f"{len(wrong)} of {len(expected)} subjects are wrong: {wrong}"
    return len(expected)


# --- the read model


async def check_read_model(fleet: Fleet, log: EventLog, bills: Billed) -> None:
    """The projector's ledger equals the bills, and a rebuild from the log gives the same rows."""
    ends = {
        where: await log.end(where)
        for topic in RELAYED
        for p in range(PARTITIONS)
        if await log.end(where := TopicPartition(topic.name, p))
    }
    source = SocketSource(fleet.machine.query_socket)
    answer: list[list[Any]] = []

    async def caught_up() -> bool:
        try:
            found = await source.query(_LEDGER, min_position=ends)
        except QueryUnavailable:
            return False
        answer.extend(msgspec.json.decode(found.rows))
        return True

    await until(caught_up, "the projector to catch up")
    assert answer == [[sum(bills.nanousd.values()), len(await _attempts(log))]]
    await fleet.command("rebuild")


_LEDGER = "SELECT CAST(sum(ledger_nanousd) AS BIGINT), count(*) FROM v_ledger"


async def _attempts(log: EventLog) -> set[str]:
    return set((await read_ledger(log)).entries)


# --- everything


async def audit(fleet: Fleet, traffic: Traffic, at_kills: Iterable[str], durable: Mapping[str, int]) -> Book:
    """Every promise, once nothing is in flight any more. `at_kills`: markers of requests open when a
    gateway was killed; `durable`: the newest synced seq seen in each slot."""
    await fleet.wait_idle_upstream()
    await fleet.wait_relayed()
    log = fleet.machine.open_log()
    try:
        book = await read_book(log)
        bills = await billed(fleet)
        check_nothing_is_lost(book, durable, fleet.machine.data_dir)
        check_settlements(book, traffic.asked)
        check_bills(book, bills, sessions_of(fleet, at_kills))
        await reconciled(fleet, log, bills)
        if fleet.is_running("estimator"):
            await check_state(log, fleet.machine.settings.routing())
        if fleet.is_running("projector"):
            await check_read_model(fleet, log, bills)
        return book
    finally:
        await log.close()
