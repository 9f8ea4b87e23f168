"""Records of one partition → one part: decoded, judged, free of duplicates, as rows. No I/O, no clock."""

from collections.abc import Sequence

from tidegate.events.codec import decode_data, decode_envelope
from tidegate.events.dedup import Marks
from tidegate.events.errors import BeyondBounds, NotAnEnvelope, UnknownEvent
from tidegate.events.log.port import Record, TopicPartition
from tidegate.projections.batch import Halt, MarkRow, Part, Poison
from tidegate.projections.rows import Place, rows_of


class Ingest:
    """Folds the records of one partition. Keeps its marks: the one thing rows depend on besides the record."""

    def __init__(self, where: TopicPartition, marks: Sequence[MarkRow] = ()) -> None:
        self._where = where
        self._marks = Marks(
            seqs={mark.source: mark.last_seq for mark in marks},
            closed={mark.source: mark.closed_ns for mark in marks if mark.closed_ns is not None},
        )
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
            if not self._marks.accept(envelope.source, envelope.seq):
                part.duplicates += 1
                continue
            self._changed.add(envelope.source)
            part.events += 1
            try:
                for table, row in rows_of(Place(record.partition, record.offset), envelope, data):
                    part.rows.setdefault(table, []).append(row)
            except BeyondBounds as error:
                part.poison.append(Poison(record, str(error)))
            if envelope.type == "SourceClosed":
                self._marks.close(envelope.source, record.append_ns)
                part.forgotten += self._marks.retire(record.append_ns)
        part.marks = [self._mark(source) for source in self._changed if source in self._marks.seqs]
        return part

    def _mark(self, source: str) -> MarkRow:
        return MarkRow(*self._where, source, self._marks.seqs[source], self._marks.closed.get(source))
