"""Splitting a batch keeps every observation, and each subject's order."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.estimator import rounds
from tidegate.estimator.columns import Columns
from tidegate.estimator.rounds import coalesce, elapsed_ms, in_order, scan, turns

subjects = st.lists(st.integers(0, 5), max_size=60).map(lambda ids: np.array(ids, dtype=np.int64))


@given(subjects)
def test_each_turn_holds_a_subject_once_and_the_kth_turn_its_kth_observation(idx: np.ndarray) -> None:
    if idx.size == 0:
        return
    seats, order, sizes = turns(idx)
    assert sorted(seats.tolist()) == np.unique(idx).tolist()
    seen: dict[int, list[int]] = {}
    begin = 0
    for size in sizes:
        part = order[begin : begin + size]
        assert idx[part].tolist() == seats[:size].tolist()  # the seats of a turn are the first ones
        for position in part.tolist():
            seen.setdefault(int(idx[position]), []).append(position)
        begin += size
    assert begin == idx.size
    for subject, positions in seen.items():
        assert positions == np.flatnonzero(idx == subject).tolist()


class _Story(Columns):
    """A model whose state depends on every observation and on their order."""

    FIELDS = ("told",)
    PRIOR = (1.0,)


@given(subjects, st.integers(1, 3))
def test_a_scan_shows_each_subject_its_observations_in_order_however_wide_a_step_is(
    idx: np.ndarray, chunk: int
) -> None:
    numbers = np.arange(idx.size, dtype=np.float64) + 1.0

    def step(block: np.ndarray, number: np.ndarray) -> None:
        assert block.shape[1] <= chunk
        block[0] = block[0] * 0.75 + number

    table = _Story(6)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds, "_CHUNK", chunk)
        scan(table, idx, (numbers,), step)
    for subject in range(6):
        told = 1.0
        for number in numbers[idx == subject].tolist():
            told = told * 0.75 + number
        assert table.data[0, subject] == told


@given(st.lists(st.sampled_from((0, 1, 300, 65_535, 65_536, 70_000, 2**40, -1)), max_size=60))
def test_subjects_are_brought_in_order_whatever_their_numbers(ids: list[int]) -> None:
    idx = np.array(ids, dtype=np.int64)
    assert in_order(idx).tolist() == sorted(range(len(ids)), key=ids.__getitem__)


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


@given(
    st.lists(st.tuples(st.integers(0, 4), st.integers(-3, 50)), max_size=40),
    st.integers(0, 40),
    st.sampled_from((1, 10**12, 10**14)),  # the last: so far apart that only ranks keep the sums exact
)
def test_the_time_since_the_latest_observation_is_that_of_one_by_one(
    rows: list[tuple[int, int]], known: int, unit: int
) -> None:
    idx = np.array([row[0] for row in rows], dtype=np.int64)
    at = np.array([row[1] * unit for row in rows], dtype=np.float64)
    latest = [float(known), 0.0, 7.0, 0.0, 0.0]
    known_ms = np.array(latest)
    expected = []
    for subject, moment in zip(idx.tolist(), at.tolist(), strict=True):
        expected.append(max(moment - latest[subject], 0.0) if latest[subject] > 0 else 0.0)
        latest[subject] = max(latest[subject], moment)
    assert elapsed_ms(known_ms, idx, at).tolist() == expected
    assert known_ms.tolist() == latest
