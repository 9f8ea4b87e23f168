"""Which rows of a journal are read and which are dropped, against a plain list."""

from __future__ import annotations

import tempfile
from pathlib import Path

from hypothesis import given, settings
from hypothesis import strategies as st

from tidegate.events.journal.store import JournalStore

COUNTS = st.lists(st.integers(1, 40), min_size=1, max_size=12)


def spans_of(counts: list[int]) -> list[tuple[int, int]]:
    spans, first = [], 1
    for count in counts:
        spans.append((first, first + count - 1))
        first += count
    return spans


@settings(max_examples=60, deadline=None)
@given(COUNTS, st.integers(0, 300), st.integers(1, 60), st.integers(0, 300))
def test_rows_go_in_bounded_slices_oldest_first_and_only_what_ended_below(
    counts: list[int], seq: int, at_most: int, from_seq: int
) -> None:
    spans = spans_of(counts)
    with tempfile.TemporaryDirectory() as folder:
        store = JournalStore.open(Path(folder) / "gw-0")
        for count in counts:
            store.insert(count, 1, "s", 1, b"x")
        kept = [span for span in spans if span[1] >= seq] or spans[-1:]
        left, is_more = spans, True
        while is_more:
            is_more = store.delete_below(seq, at_most)
            now = [row[:2] for row in store.rows()]
            gone = left[: len(left) - len(now)]
            assert now == left[len(gone) :]
            assert all(first < gone[0][0] + at_most for first, _ in gone)
            assert gone or not is_more
            left = now
        assert left == kept
        assert [row[:2] for row in store.rows(from_seq)] == [span for span in left if span[1] >= from_seq]
        store.close()
        store = JournalStore.open(Path(folder) / "gw-0")  # the next owner goes on from there
        assert store.next_seq == spans[-1][1] + 1
        assert not store.delete_below(seq, at_most)
        assert [row[:2] for row in store.rows()] == kept
        store.close()
