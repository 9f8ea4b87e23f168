"""Shadow price of scarce quota: what one more unit of a window is worth until its reset (bid-price control).

λ(q, t) = E_D[0 if q ≥ D else Fv⁻¹(1 − q/D)]: serve the most valuable part q/D of the demand D that is still to
come, and a unit is worth what the last one served saves. Talluri & van Ryzin; Littlewood's rule for two classes.
"""

import numpy as np

from tidegate.estimator.columns import Columns, FloatArray, IntArray, milliseconds
from tidegate.estimator.rounds import elapsed_ms, scan
from tidegate.events.quota import PRIOR_SHARE

BUCKETS = 32
_RATIO_LOG = 0.25
"""Buckets are e^0.25 wide; 32 span a factor of 3,000 around the first value seen."""
ORIGIN, EVIDENCE, AT_MS, USE, LONG_USE = range(5)
WEIGHT = slice(5, 5 + BUCKETS)
VALUE = slice(5 + BUCKETS, 5 + 2 * BUCKETS)
_FLOOR_SHARE = 1e-3
_DUAL_RATE = 3.0
_FULL_CONFIDENCE_BINS = 30.0


class ValueSketch(Columns):
    """Distribution Fv of the saving per unit (nano-dollars), weighted by units; forgets with `half_life_ms`.

    Per bucket the weight and the value it holds are kept, so equal values come back exactly.
    """

    FIELDS = (
        *("origin", "evidence", "at_ms", "use", "long_use"),
        *(f"weight_{k}" for k in range(BUCKETS)),
        *(f"value_{k}" for k in range(BUCKETS)),
    )
    PRIOR = (0.0,) * len(FIELDS)

    def observe(
        self,
        idx: IntArray,
        ts_ns: IntArray,
        alternative_nanousd: FloatArray,
        units: FloatArray,
        long_units: FloatArray,
        half_life_ms: FloatArray,
    ) -> None:
        """Demands of windows, which may repeat and keep their order: `units` of it, and what the best alternative
        would cost (nano-dollars > 0).

        `long_units` is the same demand in the next longer window, 0 when there is none. Demand without units or
        without a priced alternative says nothing of value and is ignored.
        """
        useful = (units > 0) & (alternative_nanousd > 0) & np.isfinite(alternative_nanousd)
        who, use, value = idx[useful], units[useful], alternative_nanousd[useful]
        log_value = np.log(value / use)
        self._begin(who, log_value)
        place = np.floor((log_value - self.data[ORIGIN, who]) / _RATIO_LOG + 0.5) + BUCKETS // 2
        bucket = np.clip(place, 0, BUCKETS - 1).astype(np.int64)
        rows = np.stack((WEIGHT.start + bucket, VALUE.start + bucket), axis=1)
        amounts = np.stack((use, value), axis=1)
        elapsed = elapsed_ms(self.data[AT_MS], who, milliseconds(ts_ns[useful]))
        left = np.exp2(-elapsed / half_life_ms[useful])
        scan(self, who, (left, rows, amounts, use, long_units[useful]), _observe)

    def _begin(self, who: IntArray, log_value: FloatArray) -> None:
        """The first value of a window stays the origin of its buckets."""
        fresh = self.data[EVIDENCE, who] == 0
        seen, first = np.unique(who[fresh], return_index=True)
        self.data[ORIGIN, seen] = log_value[fresh][first]


def _observe(
    block: FloatArray,
    left: FloatArray,
    rows: IntArray,
    amounts: FloatArray,
    use: FloatArray,
    long_use: FloatArray,
) -> None:
    """One demand per window, in place: `left` is what time leaves of all sums, `rows` and `amounts` (n, 2) are
    places and additions of weight and value."""
    block[USE:] *= left
    block[rows, np.arange(left.size)[:, None]] += amounts
    block[USE] += use
    block[LONG_USE] += long_use
    block[EVIDENCE] += 1.0


def bid_price(block: FloatArray, quota: FloatArray, demand: FloatArray, outlay: FloatArray) -> FloatArray:
    """λ per window in nano-dollars per unit from sketch columns, remaining `quota` and draws of the remaining
    demand, shape (draws, n). `outlay` is what a unit costs in longer windows (λ_long · u_long/u_short), taken
    off every value. Never below a thousandth of the mean value: quota is nearly worthless, not worthless.
    """
    weight = block[WEIGHT]
    value: FloatArray = np.maximum(block[VALUE] / np.where(weight > 0, weight, 1.0) - outlay, 0.0)
    total, worth = np.zeros(quota.shape), np.zeros(quota.shape)
    for k in range(BUCKETS):
        total = total + weight[k]
        worth = worth + weight[k] * value[k]
    served = np.clip(quota / np.where(demand > 0, demand, 1.0), 0.0, 1.0)
    marginal = np.where(quota >= demand, 0.0, _marginal_value(weight, value, served * total))
    price = np.zeros(quota.shape)
    for draw in marginal:
        price = price + draw
    floor: FloatArray = _FLOOR_SHARE * worth / np.where(total > 0, total, 1.0)
    lambda_: FloatArray = np.maximum(price / demand.shape[0], floor)
    return lambda_


def _marginal_value(weight: FloatArray, value: FloatArray, served: FloatArray) -> FloatArray:
    """Value of the bucket in which the `served` most valuable units end; the least one when they are all."""
    above = np.zeros(served.shape)
    marginal = np.zeros(served.shape)
    found = np.zeros(served.shape, dtype=np.bool_)
    for k in range(BUCKETS - 1, -1, -1):
        marginal = np.where(~found & (weight[k] > 0), value[k], marginal)
        above = above + weight[k]
        found = found | ((above >= served) & (above > 0))
    return marginal


def dual_price(reference: FloatArray, used_share: FloatArray, elapsed: FloatArray) -> FloatArray:
    """λ without history: dual descent λ ← λ·exp(η (spent − pace)/pace) from a quarter of the `reference` value.

    Its steps telescope, so the price is a function of use and time alone and needs no state (Balseiro, Lu &
    Mirrokni). Capped at the reference: quota is never worth more than what it displaces.
    """
    ahead = np.clip(used_share - elapsed, -1.0, 1.0)
    return reference * np.minimum(PRIOR_SHARE * np.exp(_DUAL_RATE * ahead), 1.0)


def shadow_price(
    bid: FloatArray, dual: FloatArray, demand_bins: FloatArray, evidence: FloatArray
) -> FloatArray:
    """Blend by how much of a first window of demand was seen; > 0 wherever either is. NaN bids count as none.

    `demand_bins` are the closed bins of the demand series, `evidence` the demands in the sketch.
    """
    trust = np.where(evidence > 0, np.minimum(demand_bins / _FULL_CONFIDENCE_BINS, 1.0), 0.0)
    trust = np.where(np.isfinite(bid), trust, 0.0)
    return trust * np.where(np.isfinite(bid), bid, 0.0) + (1.0 - trust) * dual


def outlay_of_longer(
    block: FloatArray, longer_price: FloatArray, worth: FloatArray, longer_worth: FloatArray
) -> FloatArray:
    """What a unit of the shorter window costs in longer ones: `longer_price` of the next longer, which holds what
    that one's units cost in turn, times u_long/u_short, the mean ratio seen in demand. Before there was any, units
    compare as what they are worth, in nano-dollars each."""
    use, long_use = block[USE], block[LONG_USE]
    seen = (use > 0) & (long_use > 0)
    told = worth / np.where(longer_worth > 0, longer_worth, np.inf)
    ratio: FloatArray = np.where(seen, long_use / np.where(use > 0, use, 1.0), told)
    return longer_price * ratio


def left_after(price: FloatArray, outlay: FloatArray, worth: FloatArray) -> FloatArray:
    """What of a price longer windows do not ask already; never nothing, as long as a unit is worth something."""
    left: FloatArray = np.maximum(price - outlay, _FLOOR_SHARE * worth)
    return left


def mean_value(block: FloatArray, prior_nanousd: FloatArray) -> FloatArray:
    """Mean saving per unit seen so far, nano-dollars; the declared prior until there was any."""
    weight, value = np.zeros(prior_nanousd.shape), np.zeros(prior_nanousd.shape)
    for k in range(BUCKETS):
        weight = weight + block[WEIGHT][k]
        value = value + block[VALUE][k]
    seen = block[EVIDENCE] > 0
    return np.where(seen, value / np.where(weight > 0, weight, 1.0), prior_nanousd)
