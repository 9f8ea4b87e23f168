"""Splitting a batch keeps every observation, and each subject's order."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidegate.estimator.rounds import coalesce, rounds

subjects = st.lists(st.integers(0, 5), max_size=60).map(lambda ids: np.array(ids, dtype=np.int64))


@given(subjects)
def test_each_round_holds_a_subject_once_and_the_kth_round_its_kth_observation(idx: np.ndarray) -> None:
    parts = rounds(idx)
    seen: dict[int, list[int]] = {}
    for part in parts:
        assert np.unique(idx[part]).size == part.size
        for position in part.tolist():
            seen.setdefault(int(idx[position]), []).append(position)
    assert sum(part.size for part in parts) == idx.size
    for subject, positions in seen.items():
        assert positions == np.flatnonzero(idx == subject).tolist()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers(0, 3), st.integers(0, 10**12)), max_size=60))
def test_merging_neighbours_keeps_sums_and_order_of_bins(rows: list[tuple[int, int, int]]) -> None:
    idx, bins, units = (np.array([row[k] for row in rows], dtype=np.int64) for k in range(3))
    who, bin_, total = coalesce(idx, bins, units)
    for subject in range(4):
        expected: list[list[int]] = []
        for row in rows:
            if row[0] != subject:
                continue
            if expected and expected[-1][0] == row[1]:
                expected[-1][1] += row[2]
            else:
                expected.append([row[1], row[2]])
        mine = who == subject
        assert [
            list(pair) for pair in zip(bin_[mine].tolist(), total[mine].tolist(), strict=True)
        ] == expected
