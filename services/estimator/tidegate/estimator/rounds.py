"""Splitting a batch in which subjects repeat, so that the order of each subject is kept."""

import numpy as np

from tidegate.estimator.columns import IntArray


def rounds(idx: IntArray) -> list[IntArray]:
    """Positions of `idx` in rounds: each subject at most once a round, its k-th occurrence in round k."""
    if idx.size == 0:
        return []
    order = np.argsort(idx, kind="stable").astype(np.int64)
    rank = np.empty(idx.size, dtype=np.int64)
    rank[order] = _rank_in_run(idx[order])
    by_rank = np.argsort(rank, kind="stable").astype(np.int64)
    ends = np.cumsum(np.bincount(rank))
    return [np.sort(part) for part in np.split(by_rank, ends[:-1])]


def coalesce(idx: IntArray, bins: IntArray, units: IntArray) -> tuple[IntArray, IntArray, IntArray]:
    """Merge a subject's neighbouring observations of the same bin: (subject, bin, sum of units).

    Integer sums are exact, so a merged observation equals the single ones in turn. The result is sorted by
    subject and keeps the order of each.
    """
    if idx.size == 0:
        return idx, bins, units
    order = np.argsort(idx, kind="stable")
    subject, bin_, unit = idx[order], bins[order], units[order]
    fresh = np.ones(idx.size, dtype=np.bool_)
    fresh[1:] = (subject[1:] != subject[:-1]) | (bin_[1:] != bin_[:-1])
    starts = np.flatnonzero(fresh)
    return subject[starts], bin_[starts], np.add.reduceat(unit, starts)


def _rank_in_run(ordered: IntArray) -> IntArray:
    place = np.arange(ordered.size, dtype=np.int64)
    fresh = np.ones(ordered.size, dtype=np.bool_)
    fresh[1:] = ordered[1:] != ordered[:-1]
    return place - np.maximum.accumulate(np.where(fresh, place, 0))
