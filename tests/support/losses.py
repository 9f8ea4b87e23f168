"""Tells all that is known of events that are not in the log as they should be: where their neighbours stand,
what the journal and the relay say of them, and every record there is."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple

from tidegate.events import codec
from tidegate.events.envelope import Envelope
from tidegate.events.errors import TidegateError
from tidegate.events.journal import frames
from tidegate.events.journal.store import POSITION, JournalTail
from tidegate.events.journal.sync import SyncedMark
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import TOPICS

SHOWN = 12
EVERYTHING = "events.txt"


class Event(NamedTuple):
    """An event where it stands in the log."""

    where: TopicPartition
    offset: int
    envelope: Envelope
    data: Any

    def __str__(self) -> str:
        envelope, (topic, partition) = self.envelope, self.where
        at = f"{topic}/{partition} offset {self.offset}"
        return f"seq {envelope.seq}: {envelope.type} {envelope.id} of {envelope.source} at {at}"


def slot_of(event: Event) -> str:
    """The journal it comes from, as its source is named."""
    return event.envelope.source.split("@")[0]


def ranges(seqs: Iterable[int]) -> str:
    """`3-5, 9` for 3, 4, 5, 9."""
    found = []
    for _, run in itertools.groupby(enumerate(sorted(seqs)), key=lambda pair: pair[1] - pair[0]):
        first, *_, last = [seq for _, seq in run] * 2
        found.append(str(first) if first == last else f"{first}-{last}")
    return ", ".join(found) or "none"


def tell(
    slot: str,
    wrong: Sequence[int],
    read: Sequence[Event],
    dropped: Sequence[Event],
    data_dir: Path | None = None,
) -> str:
    """What is known of the `wrong` seqs of a journal: from what a reader takes of the log (`read`) and drops,
    and from the journal's own folder. Everything goes into a file beside the data folder."""
    about = {seq + side for seq in wrong[:SHOWN] for side in (-1, 0, 1)}
    lines = [
        f"journal {slot}: wrong are seqs {ranges(wrong)}",
        f"the log holds seqs {ranges({e.envelope.seq for e in read if slot_of(e) == slot})}, of the sources",
        *sorted({f"  {e.envelope.source}" for e in read if slot_of(e) == slot}),
        "in the log, there and beside, whoever the source is:",
        *(f"  {event}" for event in read if event.envelope.seq in about),
        "in the log, and dropped by every reader:",
        *(f"  {event}" for event in dropped if event.envelope.seq in about and slot_of(event) == slot),
    ]
    if data_dir is not None:
        lines += [*_journal(data_dir / "journals" / slot, wrong), _everything(data_dir, [*read, *dropped])]
    return "\n".join(lines)


def _journal(folder: Path, wrong: Sequence[int]) -> Iterator[str]:
    """What the journal's folder says."""
    try:
        mark = SyncedMark(folder)
        yield f"{folder}: synced to {mark.read()}; the relay says {(folder / POSITION).read_text()}"
        mark.close()
        tail = JournalTail(folder)
        rows = tail.rows(0, 1 << 60, -1)
        tail.close()
    except (OSError, TidegateError) as error:
        yield f"{folder} cannot be read: {error}"
        return
    yield f"its file holds rows {ranges(seq for row in rows for seq in range(row.first_seq, row.last_seq + 1))}"
    for row in rows:
        if any(row.first_seq <= seq <= row.last_seq for seq in wrong):
            yield f"  row {row.first_seq}-{row.last_seq} of {row.source}, append time {row.append_ns}:"
            for frame in frames.unpack(row.frames):
                envelope = codec.decode_envelope(frame.value)
                yield (
                    f"    seq {envelope.seq}: {envelope.type} for {TOPICS[frame.topic].name}/{frame.partition}"
                )


def _everything(data_dir: Path, events: Iterable[Event]) -> str:
    path = data_dir.parent / EVERYTHING
    path.write_text("".join(f"{event}\n" for event in sorted(events, key=lambda e: (e.where, e.offset))))
    return f"every record: {path}"
