"""Starts of attempts that stay open are carried into the newest row, so that the rows they began in may go.

Rows go from the oldest on, so one slow stream would hold back all that came after it. A carried start is a copy
for whoever settles orphans; the relay sends none. It is written before anything is deleted, so a kill at any
point leaves each open attempt's start at or above the newest row's mark, and with it every row that followed.
"""

from collections.abc import Mapping, Sequence
from itertools import islice

from tidegate.events.errors import JournalCorrupt
from tidegate.events.journal import frames
from tidegate.events.journal.store import JournalStore
from tidegate.events.types import AttemptId

PINNED_EVENTS = 4_000
"""So many relayed events may stay for the oldest open attempt before starts are carried forward."""
PINNED_PER_OPEN = 16
"""Besides, for each open attempt: what is carried is a small part of what was written meanwhile."""
CARRY_ATTEMPTS = 16
"""So many in one step on the loop."""


def carry(
    store: JournalStore, opened: Mapping[AttemptId, int], relayed_to: int, closing: Sequence[int] = ()
) -> dict[AttemptId, int] | None:
    """Carry the oldest of the open attempts (attempt → seq that holds its start, ascending) when they hold back too
    much of what lies below the relay's position. Returns where starts are held now; None: nothing was done.

    `closing`: seqs that hold starts whose settlements are not in the file. They are open to whoever comes after a kill.
    Raises JournalUnwritable, JournalCorrupt; then everything is as before.
    """
    oldest = next(iter(opened.values()), relayed_to)
    if relayed_to - oldest <= max(PINNED_EVENTS, PINNED_PER_OPEN * len(opened)):
        return None
    newest = store.last_row()
    if newest is None:
        return None
    due = {attempt: seq for attempt, seq in islice(opened.items(), CARRY_ATTEMPTS) if seq < newest.first_seq}
    if not due:
        return None
    rest = {attempt: seq for attempt, seq in opened.items() if attempt not in due}
    mark = min(newest.first_seq, next(iter(rest.values()), newest.first_seq), *closing)
    store.extend_newest(newest, mark, b"".join(_starts(store, due)))
    held = {**rest, **dict.fromkeys(due, newest.first_seq)}
    return dict(sorted(held.items(), key=lambda item: item[1]))


def _starts(store: JournalStore, due: Mapping[AttemptId, int]) -> list[bytes]:
    """The starts as carried frames. Raises JournalCorrupt when one is not where it should be."""
    wanted = {attempt.encode(): seq for attempt, seq in due.items()}
    found: dict[bytes, bytes] = {}
    for key, seq in wanted.items():
        if key in found:
            continue
        for row in store.rows(seq, 1):
            for frame in frames.unpack(row.frames):
                if frame.flag in frames.OPENING and frame.key in wanted:
                    found[frame.key] = frames.pack(
                        frame.topic, frame.partition, frames.CARRIED, frame.key, frame.value
                    )
        if key not in found:
            raise JournalCorrupt(f"{store.folder}: event {seq} does not start attempt {key.decode()}")
    return list(found.values())
