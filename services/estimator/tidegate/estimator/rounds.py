"""Splitting a batch in which subjects repeat, so that the order of each subject is kept."""

from collections.abc import Callable
from typing import Any, TypeVar

import numpy as np
import numpy.typing as npt

from tidegate.estimator.columns import FloatArray, IntArray, Table

_Cell = TypeVar("_Cell", np.float64, np.int64)
_CHUNK = 2048
"""Subjects of a step: keeps them in cache. Does not change a result."""
_EXACT = 2.0**53


def scan(
    table: Table[_Cell, Any],
    idx: IntArray,
    columns: tuple[npt.NDArray[Any], ...],
    step: Callable[..., None],
) -> None:
    """Let each subject of `idx` take its observations in their order: `step(block, *columns)`, in place.

    The k-th observations of all subjects are one step. `block` holds the table's columns of its subjects, the
    subjects with most observations first: so every step works on the first columns of the same copy.
    """
    if idx.size == 0:
        return
    subjects, order, sizes = turns(idx)
    block = table.take(subjects)
    ordered = [column[order] for column in columns]
    at = 0
    for size in sizes:
        for begin in range(0, size, _CHUNK):
            end = min(begin + _CHUNK, size)
            step(block[:, begin:end], *[column[at + begin : at + end] for column in ordered])
        at += size
    table.put(subjects, block)


def elapsed_ms(known_ms: FloatArray, idx: IntArray, at_ms: FloatArray) -> FloatArray:
    """Per observation the time since its subject's latest one before it, 0 where there was none or it is late.

    `known_ms` holds the latest time of every subject (0: none yet); it is brought up to date.
    """
    by_subject = in_order(idx)
    who, at = idx[by_subject], at_ms[by_subject]
    fresh = _fresh(who)
    latest = _latest(fresh, at)
    before = np.zeros(at.size)
    before[1:] = np.where(fresh[1:], 0.0, latest[:-1])
    before = np.maximum(before, known_ms[who])
    known_ms[who] = np.maximum(before, at)  # in order: the last one of a subject stays
    elapsed = np.empty(at.size)
    elapsed[by_subject] = np.where(before > 0, np.maximum(at - before, 0.0), 0.0)
    return elapsed


def _latest(fresh: npt.NDArray[np.bool_], at: FloatArray) -> FloatArray:
    """The maximum up to each element, begun anew where `fresh`."""
    first = at.min(initial=np.inf)
    after = at - first
    reach = after.max(initial=0.0) + 1.0
    if at.size * reach < _EXACT:  # whole milliseconds: sums below are exact
        base = np.cumsum(fresh) * reach  # so that no maximum reaches into the next subject
        latest: FloatArray = np.maximum.accumulate(base + after) - base + first
        return latest
    values, rank = np.unique(at, return_inverse=True)
    places = np.cumsum(fresh) * values.size
    found: FloatArray = values[np.maximum.accumulate(places + rank) - places]
    return found


def in_order(idx: IntArray) -> IntArray:
    """Positions of `idx` by subject, each in its order: a stable sort, of 16 bits where they are enough."""
    few = idx.size > 0 and idx.min() >= 0 and idx.max() < 1 << 16
    order: IntArray = np.argsort(
        idx.astype(np.uint16) if few else idx, kind="stable"
    )  # radix: ten times faster
    return order


def turns(idx: IntArray) -> tuple[IntArray, IntArray, list[int]]:
    """Subjects, most frequent first; positions of `idx` turn by turn, each in the order of the subjects; and
    the sizes of the turns: each subject at most once a turn, its k-th occurrence in turn k."""
    by_subject = in_order(idx)
    ordered = idx[by_subject]
    starts = np.flatnonzero(_fresh(ordered))
    counts = np.diff(starts, append=idx.size)
    frequent = np.argsort(-counts, kind="stable")
    seat = np.empty(starts.size, dtype=np.int64)
    seat[frequent] = np.arange(starts.size)
    turn = np.arange(idx.size) - np.repeat(starts, counts)
    sizes = np.bincount(turn)
    # In turn k sit the subjects with more than k observations, which have the first seats: no sort is needed.
    order = np.empty(idx.size, dtype=np.int64)
    order[(np.cumsum(sizes) - sizes)[turn] + np.repeat(seat, counts)] = by_subject
    return ordered[starts[frequent]], order, sizes.tolist()


def coalesce(idx: IntArray, bins: IntArray, units: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Merge a subject's neighbouring observations of the same bin: (subject, bin, sum of units).

    Integer sums are exact, so a merged observation equals the single ones in turn. The result is sorted by
    subject and keeps the order of each.
    """
    if idx.size == 0:
        return idx, bins, units
    order = in_order(idx)
    subject, bin_, unit = idx[order], bins[order], units[order]
    starts = np.flatnonzero(_fresh(subject) | _fresh(bin_))
    return subject[starts], bin_[starts], np.add.reduceat(unit, starts)


def _fresh(ordered: IntArray) -> npt.NDArray[np.bool_]:
    """Where a value differs from the one before; True at the first."""
    fresh = np.ones(ordered.size, dtype=np.bool_)
    np.not_equal(ordered[1:], ordered[:-1], out=fresh[1:])
    return fresh
