"""Records of one partition → one part: decoded, judged, free of duplicates, as rows. No I/O, no clock."""

from collections.abc import Iterable, Sequence

from tidegate.events.codec import decode_data, decode_envelope
from tidegate.events.envelope import Envelope
from tidegate.events.errors import NotAnEnvelope, UnknownEvent
from tidegate.events.log.port import Record, TopicPartition
from tidegate.projections.batch import Halt, MarkRow, Part, Poison
from tidegate.projections.rows import Place, rows_of

MARK_RETIRES_NS = 7 * 86_400 * 1_000_000_000
"""A mark is kept so long after its source closed, by the log's clock."""


class Ingest:
    """Folds the records of one partition. Keeps its marks: the one thing rows depend on besides the record."""

    def __init__(self, where: TopicPartition, marks: Iterable[MarkRow] = ()) -> None:
        self._where = where
        self._marks = {mark.source: mark for mark in marks}
        self._changed: set[str] = set()

    def fold(self, records: Sequence[Record], position: int) -> Part:
        """All records of this partition, in offset order; `position` is the next offset after them.

        Stops before the first known envelope of an unknown type or version: `halt` says where.
        """
        part = Part(where=self._where, position=position)
        self._changed.clear()
        for record in records:
            if record.value is None:
                continue
            try:
                envelope = decode_envelope(record.value)
                data = decode_data(envelope)
            except NotAnEnvelope as error:
                part.poison.append(Poison(record, str(error)))
                continue
            except UnknownEvent as error:
                part.position = record.offset
                part.halt = Halt(self._where, record.offset, str(error))
                break
            if not self._accept(envelope):
                part.duplicates += 1
                continue
            part.events += 1
            for table, row in rows_of(Place(record.partition, record.offset), envelope, data):
                part.rows.setdefault(table, []).append(row)
            if envelope.type == "SourceClosed":
                self._close(envelope.source, record.append_ns, part)
        part.marks = [self._marks[source] for source in self._changed]
        return part

    def _accept(self, envelope: Envelope) -> bool:
        mark = self._marks.get(envelope.source)
        if mark is not None and envelope.seq <= mark.last_seq:
            return False
        self._marks[envelope.source] = MarkRow(*self._where, envelope.source, envelope.seq, None)
        self._changed.add(envelope.source)
        return True

    def _close(self, source: str, at_ns: int, part: Part) -> None:
        self._marks[source] = self._marks[source]._replace(closed_ns=at_ns)
        for mark in tuple(self._marks.values()):
            if mark.closed_ns is not None and mark.closed_ns + MARK_RETIRES_NS <= at_ns:
                del self._marks[mark.source]
                self._changed.discard(mark.source)
                part.forgotten.append(mark.source)
