"""Billed price per (target, token class): a Kalman local level on the log of dollars actually billed.

List prices are steps and come in exactly, by `price_event`; the filter follows what really drifts around them.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import BoolArray, Columns, FloatArray, IntArray, milliseconds
from tidegate.estimator.day_profile import DAY_MS
from tidegate.estimator.rounds import elapsed_ms, scan

LOG_PRICE, VAR, SCALE, SCALE_WEIGHT, ZERO_BILLS, PAID_BILLS = range(6)
LIST_PRICE, STREAK, CHANGED, EVIDENCE, PAID_EVIDENCE, AT_MS = range(6, 12)
_UNKNOWN = -1.0

LISTED_VAR = 0.01
"""Variance of the log price right after a price event: a list price is usually what is billed."""
UNKNOWN_VAR = 1.0
_DRIFT_VAR_PER_DAY = 4e-4
_NOISE_TOKENS = 10.0
_NOISE_FLOOR = 1e-4
_NU = 4.0
_NIS_LIMIT = 10.8
"""The 99.9 % point of chi-squared with one degree of freedom."""
_STREAK = 3.0
_FORGET_BILLS = 0.8
_SCALE_FORGET = 0.985
_MAX_SCALE = 1e4


class PriceBelief(NamedTuple):
    """Per series: mean (nano-dollars per million tokens), its variance, and what it rests on."""

    mean_nanousd: IntArray
    var_nanousd2: FloatArray
    known: BoolArray
    """False: neither a bill nor a list price was ever seen; the mean means nothing then."""
    prior: BoolArray
    """True: a list price only, no bill yet."""
    changed: BoolArray
    """An unannounced price change: three surprising bills in a row, all in one direction, no price event since."""


class PriceFilter(Columns):
    """Local level of ln(nano-dollars per million tokens), R = s²·(r/tokens + r0) with a learned s² ≥ 1.
    A bill of zero never enters the logarithm: zero and paid bills are counted apart, the mean is their mixture."""

    FIELDS = (
        *("log_price", "var", "noise_scale", "noise_weight", "zero_bills", "paid_bills"),
        *("list_price", "streak", "changed", "evidence", "paid_evidence", "at_ms"),
    )
    PRIOR = (0.0, UNKNOWN_VAR, 1.0, 4.0, 0.0, 0.0, _UNKNOWN, 0.0, 0.0, 0.0, 0.0, 0.0)

    def observe(self, idx: IntArray, ts_ns: IntArray, cost_nanousd: IntArray, tokens: IntArray) -> None:
        """Bills of series, which may repeat and keep their order: nano-dollars charged for `tokens` tokens of the
        class. Bills without tokens and negative costs say nothing about a price and are ignored."""
        useful = (tokens > 0) & (cost_nanousd >= 0)
        amount, volume = cost_nanousd[useful].astype(np.float64), tokens[useful].astype(np.float64)
        paid = amount > 0
        log_price = np.log(np.where(paid, amount, 1.0) * 1e6 / volume)
        noise = _NOISE_TOKENS / volume + _NOISE_FLOOR
        who = idx[useful]
        self._begin(who[paid], log_price[paid])
        days = elapsed_ms(self.data[AT_MS], who, milliseconds(ts_ns[useful])) / DAY_MS
        zero_bill, paid_bill = (~paid).astype(np.float64), paid.astype(np.float64)
        drift = _DRIFT_VAR_PER_DAY * days
        scan(self, who, (drift, paid, zero_bill, paid_bill, log_price, noise), _observe)

    def _begin(self, who: IntArray, log_price: FloatArray) -> None:
        """The first paid bill of a series without a list price is where its level starts."""
        fresh = (self.data[PAID_EVIDENCE, who] == 0) & (self.data[LIST_PRICE, who] <= 0)
        seen, first = np.unique(who[fresh], return_index=True)
        self.data[LOG_PRICE, seen] = log_price[fresh][first]

    def price_event(self, idx: IntArray, ts_ns: IntArray, price_nanousd: IntArray) -> None:
        """The list price is now `price_nanousd` per million tokens: shift the level by ln(new/old), so that the
        published mean moves by exactly that factor, and reset the variance. Zero = nothing is billed per token."""
        block = self.take(idx)
        at_ms = milliseconds(ts_ns)
        new = price_nanousd.astype(np.float64)
        old = block[LIST_PRICE]
        news = new != old
        priced = news & (new > 0)
        log_new = np.log(np.where(new > 0, new, 1.0))
        learned = (block[PAID_EVIDENCE] > 0) & (old > 0)
        shifted = (
            block[LOG_PRICE] + 0.5 * _drifted(block, at_ms) + log_new - np.log(np.where(old > 0, old, 1.0))
        )
        mean_log = np.where(learned, shifted, log_new)
        block[LOG_PRICE] = np.where(priced, mean_log - 0.5 * LISTED_VAR, block[LOG_PRICE])
        block[VAR] = np.where(priced, LISTED_VAR, block[VAR])
        block[ZERO_BILLS] = np.where(news, new == 0, block[ZERO_BILLS])
        block[PAID_BILLS] = np.where(news, new > 0, block[PAID_BILLS])
        block[STREAK] = np.where(news, 0.0, block[STREAK])
        block[CHANGED] = np.where(news, 0.0, block[CHANGED])
        block[LIST_PRICE] = new
        block[AT_MS] = np.maximum(block[AT_MS], at_ms)
        self.put(idx, block)

    def belief(self, idx: IntArray, now_ns: int) -> PriceBelief:
        """What is believed at `now_ns`; the state is unchanged."""
        block = self.take(idx)
        var = _drifted(block, np.full(idx.size, float(now_ns // 1_000_000)))
        paid_mean = np.exp(block[LOG_PRICE] + 0.5 * var)
        bills = block[ZERO_BILLS] + block[PAID_BILLS]
        paid_share = np.where(bills > 0, block[PAID_BILLS] / np.where(bills > 0, bills, 1.0), 0.0)
        mean = paid_share * paid_mean
        second = paid_share * paid_mean * paid_mean * np.exp(var)
        return PriceBelief(
            mean_nanousd=np.rint(mean).astype(np.int64),
            var_nanousd2=np.maximum(second - mean * mean, 0.0),
            known=bills > 0,
            prior=block[EVIDENCE] == 0,
            changed=block[CHANGED] > 0,
        )


def _observe(
    block: FloatArray,
    drift: FloatArray,
    paid: BoolArray,
    zero_bill: FloatArray,
    paid_bill: FloatArray,
    log_price: FloatArray,
    noise: FloatArray,
) -> None:
    """One bill per series, in place."""
    block[VAR] = _grown(block[VAR], drift)
    block[ZERO_BILLS] = _FORGET_BILLS * block[ZERO_BILLS] + zero_bill
    block[PAID_BILLS] = _FORGET_BILLS * block[PAID_BILLS] + paid_bill
    block[EVIDENCE] += 1.0
    if np.count_nonzero(paid) == paid.size:
        _update(block, log_price, noise)
    else:
        part = block[:, paid]
        _update(part, log_price[paid], noise[paid])
        block[:, paid] = part


def _drifted(block: FloatArray, at_ms: FloatArray) -> FloatArray:
    days = np.maximum(at_ms - block[AT_MS], 0.0) / DAY_MS
    return np.where(block[AT_MS] > 0, _grown(block[VAR], _DRIFT_VAR_PER_DAY * days), block[VAR])


def _grown(var: FloatArray, drift: FloatArray) -> FloatArray:
    """Variance after a time without bills: never more doubt than at the start."""
    return np.minimum(var + drift, np.maximum(var, UNKNOWN_VAR))


def _update(block: FloatArray, log_price: FloatArray, noise: FloatArray) -> None:
    noise = noise * block[SCALE]
    error = log_price - block[LOG_PRICE]
    surprise = error * error / (block[VAR] + noise)
    var, weighed = block[VAR], noise * np.maximum((_NU + surprise) / (_NU + 1.0), 1.0)
    if np.count_nonzero(surprise > _NIS_LIMIT):
        streak = _streak(block[STREAK], error, surprise)
        jumped = np.abs(streak) >= _STREAK
        # A jump that three bills agree on is believed; a single outlier is weighed down (Student-t, one step).
        var, noise = np.where(jumped, UNKNOWN_VAR, var), np.where(jumped, noise, weighed)
        block[STREAK] = np.where(jumped, 0.0, streak)
        np.copyto(block[CHANGED], 1.0, where=jumped)
    else:
        noise = weighed
        block[STREAK] = 0.0
    gain = var / (var + noise)
    block[LOG_PRICE] += gain * error
    block[VAR] = (1.0 - gain) * (1.0 - gain) * var + gain * gain * noise
    scale = block[SCALE] + (np.minimum(surprise, 16.0) - 1.0) * block[SCALE] / block[SCALE_WEIGHT]
    block[SCALE] = np.minimum(np.maximum(scale, 1.0), _MAX_SCALE)
    block[SCALE_WEIGHT] = _SCALE_FORGET * block[SCALE_WEIGHT] + 1.0
    block[PAID_EVIDENCE] += 1.0


def _streak(streak: FloatArray, error: FloatArray, surprise: FloatArray) -> FloatArray:
    """Signed count of surprising bills in a row in one direction."""
    way = np.where(error >= 0, 1.0, -1.0)
    going = np.where(streak * way > 0, streak, 0.0)
    return np.where(surprise > _NIS_LIMIT, going + way, 0.0)
