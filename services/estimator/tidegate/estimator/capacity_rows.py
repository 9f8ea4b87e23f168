"""Columns of `capacity` as earlier versions stored them, read as the bank that stands there now. Pure."""

import numpy as np

from tidegate.estimator import capacity_bank as bank
from tidegate.estimator.columns import FloatArray

_ONE_FILTER, _FOUR_FILTERS = 16, 46
ROWS_BEFORE = (_ONE_FILTER, _FOUR_FILTERS)
"""How many numbers a column had, by version."""
_GROUPS, _MEMBERS = 10, 4
_REST = 6


def upcast(numbers: list[float]) -> list[float]:
    """A column of one filter, or of four of which the first knew no strangers.

    Every filter begins at the level and the rate that were believed, with all the doubt there was; the first where
    that without strangers stood. What pace strangers have is asked anew.
    """
    rest = [*numbers[9:14], numbers[15]] if len(numbers) == _ONE_FILTER else numbers[-_REST:]
    before = _four_of_one(numbers) if len(numbers) == _ONE_FILTER else np.array(numbers[:-_REST])
    return [*_begun(before.reshape(_GROUPS, _MEMBERS)).ravel().tolist(), *rest]


def _four_of_one(numbers: list[float]) -> FloatArray:
    """One filter as four that are equally trusted. What strangers did unevenly was a number of its own, left out."""
    four = np.zeros((_GROUPS, _MEMBERS))
    four[:9] = np.array(numbers[:9])[:, None]
    for group in (bank.PACE, bank.C02, bank.C12, bank.C22):
        four[group, 0] = 0.0
    return four


def _begun(before: FloatArray) -> FloatArray:
    share = np.exp(before[bank.LOG_WEIGHT] - before[bank.LOG_WEIGHT].max())
    share /= share.sum()
    level, rate = float(share @ before[bank.LEVEL]), float(share @ before[bank.RATE])
    off_level, off_rate = before[bank.LEVEL] - level, before[bank.RATE] - rate
    begun = bank.prior(rate, float(share @ (before[bank.C11] + off_rate * off_rate)))
    begun[bank.LEVEL] = level
    begun[bank.C00] = share @ (before[bank.C00] + off_level * off_level)
    begun[bank.C01] = share @ (before[bank.C01] + off_level * off_rate)
    for group in (bank.LEVEL, bank.RATE, bank.C00, bank.C01, bank.C11):
        begun[group, 0] = before[group, 0]
    # Together they weigh as much against the first as those with strangers did.
    strangers = np.log(max(1.0 - share[0], 1e-12)) - np.log(max(share[0], 1e-12))
    begun[bank.LOG_WEIGHT, 0] = 0.0
    begun[bank.LOG_WEIGHT, 1:] = strangers - np.log(bank.FILTERS - 1)
    begun[bank.LOG_WEIGHT] -= begun[bank.LOG_WEIGHT].max()
    return begun
