"""Shadow prices of windows that hold at once: a shorter one asks what the longer ones do not ask already. Pure."""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import FloatArray, IntArray
from tidegate.estimator.shadow_price import (
    EVIDENCE,
    bid_price,
    left_after,
    outlay_of_longer,
    shadow_price,
)


class Dry(NamedTuple):
    """What says whether windows run dry: quota left and draws (draws, n) of the demand still to come, in their own
    units, and the closed bins of demand behind them."""

    quota: FloatArray
    demand: FloatArray
    bins: FloatArray


def nested_prices(
    sketch: FloatArray, ranks: IntArray, dry: Dry, dual: FloatArray, worth: FloatArray
) -> FloatArray:
    """λ per window, nano-dollars per unit. Windows of a pool follow each other by rank, the longest (0) first.

    A request costs Σ λ·u, so each λ is of the value that the longer ones leave: v − Σ_longer λ·u. `dual` is λ
    without history, `worth` the mean value of a unit. Whatever the units, a request costs the same.
    """
    prices, outlay = np.zeros(ranks.size), np.zeros(ranks.size)
    for rank in range(int(ranks.max(initial=-1)) + 1):
        at = np.flatnonzero(ranks == rank)
        part = sketch[:, at]
        if rank:
            longer = at - 1
            asked = prices[longer] + outlay[longer]
            outlay[at] = outlay_of_longer(part, asked, worth[at], worth[longer])
        bid = bid_price(part, dry.quota[at], dry.demand[:, at], outlay[at])
        rest = left_after(dual[at], outlay[at], worth[at])
        prices[at] = shadow_price(bid, rest, dry.bins[at], part[EVIDENCE])
    return prices
