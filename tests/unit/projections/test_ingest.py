"""Records of one partition → rows: duplicates, poison, the unknown, retired marks."""

from tidegate.events.clock import ManualClock
from tidegate.events.codec import encode
from tidegate.events.control import SourceClosed
from tidegate.events.dedup import RETIRE_AFTER_NS
from tidegate.events.envelope import Draft
from tidegate.events.log.port import Record, TopicPartition
from tidegate.events.requests import RequestRefused
from tidegate.events.topics import REQUESTS
from tidegate.events.types import EventId, KeyId
from tidegate.projections.batch import MarkRow
from tidegate.projections.ingest import Ingest

AT = TopicPartition(REQUESTS.name, 2)
REFUSED = RequestRefused(key=KeyId("k"), code="x", status=404)
NOW_NS = ManualClock().wall_ns()


def record(
    offset: int,
    seq: int,
    source: str = "gw",
    *,
    kind: str = "RequestRefused",
    v: int = 1,
    at_ns: int = NOW_NS,
) -> Record:
    data = SourceClosed(last_seq=seq - 1) if kind == "SourceClosed" else REFUSED
    draft = Draft(id=EventId(f"e{offset}"), type=kind, v=v, ts=NOW_NS, source=source, seq=seq, data=data)
    return raw(offset, encode(draft), at_ns)


def raw(offset: int, value: bytes | None, at_ns: int = NOW_NS) -> Record:
    return Record(AT.topic, AT.partition, offset, b"k", value, at_ns)


def events_of(rows: dict[str, list[tuple[object, ...]]]) -> list[object]:
    return [row[2] for row in rows.get("r_refusals", [])]


def test_what_came_before_from_its_source_is_dropped() -> None:
    ingest = Ingest(AT)
    part = ingest.fold([record(0, 5), record(3, 6), record(4, 5), record(7, 6), record(9, 7)], 10)
    assert events_of(part.rows) == ["e0", "e3", "e9"]
    assert (part.events, part.duplicates, part.position) == (3, 2, 10)
    assert part.marks == [MarkRow(*AT, "gw", 7, None)]


def test_sources_have_marks_of_their_own() -> None:
    part = Ingest(AT).fold([record(0, 9, "a"), record(1, 1, "b"), record(2, 9, "b")], 3)
    assert part.duplicates == 0
    assert sorted(part.marks) == [MarkRow(*AT, "a", 9, None), MarkRow(*AT, "b", 9, None)]


def test_marks_of_an_earlier_life_hold() -> None:
    part = Ingest(AT, [MarkRow(*AT, "gw", 5, None)]).fold([record(0, 5), record(1, 6)], 2)
    assert events_of(part.rows) == ["e1"]


def test_only_marks_that_moved_are_handed_over() -> None:
    ingest = Ingest(AT, [MarkRow(*AT, "idle", 5, None)])
    assert ingest.fold([record(0, 1)], 1).marks == [MarkRow(*AT, "gw", 1, None)]
    assert ingest.fold([], 2).marks == []


def test_bytes_that_are_no_envelope_are_set_aside_and_the_rest_goes_on() -> None:
    part = Ingest(AT).fold([raw(0, b"\xff{"), raw(1, b"{}"), record(2, 1)], 3)
    assert [poison.record.offset for poison in part.poison] == [0, 1]
    assert events_of(part.rows) == ["e2"]
    assert part.halt is None


def test_an_unknown_type_stops_before_it_and_moves_no_mark() -> None:
    ingest = Ingest(AT)
    part = ingest.fold([record(0, 1), record(4, 2, kind="FromTheFuture"), record(5, 3)], 6)
    assert part.halt is not None
    assert part.position == part.halt.position == 4
    assert "FromTheFuture" in part.halt.reason
    assert events_of(part.rows) == ["e0"]
    assert part.marks == [MarkRow(*AT, "gw", 1, None)]


def test_an_unknown_version_stops_too() -> None:
    part = Ingest(AT).fold([record(0, 1, v=99)], 1)
    assert part.halt is not None
    assert "v99" in part.halt.reason


def test_a_known_type_with_data_that_does_not_fit_stops_too() -> None:
    bad = record(0, 1).value or b""
    part = Ingest(AT).fold([raw(0, bad.replace(b"404", b'"no"'))], 1)
    assert part.halt is not None
    assert part.rows == {}


def test_tombstones_are_passed_over() -> None:
    part = Ingest(AT).fold([raw(0, None), record(1, 1)], 2)
    assert (part.events, part.poison) == (1, [])


def test_a_mark_retires_seven_days_after_its_source_closed_by_the_logs_clock() -> None:
    ingest = Ingest(AT)
    first = ingest.fold([record(0, 1, "old"), record(1, 2, "old", kind="SourceClosed")], 2)
    assert first.marks == [MarkRow(*AT, "old", 2, NOW_NS)]
    almost = ingest.fold([record(2, 2, "b", kind="SourceClosed", at_ns=NOW_NS + RETIRE_AFTER_NS - 1)], 3)
    assert almost.forgotten == []
    later = ingest.fold([record(3, 2, "c", kind="SourceClosed", at_ns=NOW_NS + RETIRE_AFTER_NS)], 4)
    assert later.forgotten == ["old"]
    assert [mark.source for mark in later.marks] == ["c"]


def test_closing_twice_changes_nothing() -> None:
    ingest = Ingest(AT)
    ingest.fold([record(0, 1), record(1, 2, kind="SourceClosed")], 2)
    part = ingest.fold([record(2, 2, kind="SourceClosed", at_ns=NOW_NS + 1)], 3)
    assert (part.duplicates, part.marks) == (1, [])
