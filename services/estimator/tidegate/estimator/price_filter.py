"""Billed price per (target, token class): a Kalman local level on the log of what is billed per dollar listed.

List prices are steps and never smoothed: the filter follows a factor on the one that was in force, which bills alone
teach.
"""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.columns import BoolArray, Columns, FloatArray, IntArray, milliseconds
from tidegate.estimator.day_profile import DAY_MS
from tidegate.estimator.rounds import elapsed_ms, scan

LOG_FACTOR, VAR, SCALE, SCALE_WEIGHT, ZERO_BILLS, PAID_BILLS, LIST_PRICE, STREAK, CHANGED, EVIDENCE, AT_MS = (
    range(11)
)
"""LIST_PRICE is that of the latest bill, 0 before any."""

LISTED_VAR = 0.01
"""Variance of the log factor before any bill and after a change of the list price: it is usually what is billed."""
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
    """Per series what is billed per dollar of the list price then in force, and what that rests on."""

    factor: FloatArray
    var: FloatArray
    prior: BoolArray
    """True: no bill yet, so that the list price is what is expected."""
    changed: BoolArray
    """An unannounced change: three surprising bills in a row, all in one direction, since the list price changed."""


class PriceFilter(Columns):
    """Local level of ln(billed / listed), R = s²·(r/tokens + r0) with a learned s² ≥ 1.
    A bill of zero never enters the logarithm: zero and paid bills are counted apart, the mean is their mixture."""

    FIELDS = (
        *("log_factor", "var", "noise_scale", "noise_weight", "zero_bills", "paid_bills"),
        *("list_price", "streak", "changed", "evidence", "at_ms"),
    )
    PRIOR = (0.0, LISTED_VAR, 1.0, 4.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def observe(
        self,
        idx: IntArray,
        ts_ns: IntArray,
        billed_nanousd: IntArray,
        listed_nanousd: IntArray,
        tokens: IntArray,
        list_price: IntArray,
    ) -> None:
        """Bills of series, which may repeat and keep their order: what was billed where `listed_nanousd` was listed,
        of which `tokens` tokens of the class at `list_price` nano-dollars per million are a part. Bills without
        tokens, negative ones, and ones over what is listed free say nothing about a factor and are ignored."""
        useful = (tokens > 0) & (billed_nanousd >= 0) & (listed_nanousd > 0) & (list_price > 0)
        amount, volume = billed_nanousd[useful].astype(np.float64), tokens[useful].astype(np.float64)
        paid = amount > 0
        log_factor = np.log(np.where(paid, amount, 1.0) / listed_nanousd[useful])
        noise = _NOISE_TOKENS / volume + _NOISE_FLOOR
        who = idx[useful]
        days = elapsed_ms(self.data[AT_MS], who, milliseconds(ts_ns[useful])) / DAY_MS
        drift, listed = _DRIFT_VAR_PER_DAY * days, list_price[useful].astype(np.float64)
        zero_bill, paid_bill = (~paid).astype(np.float64), paid.astype(np.float64)
        scan(self, who, (drift, listed, paid, zero_bill, paid_bill, log_factor, noise), _observe)

    def belief(self, idx: IntArray, now_ns: int, list_price: FloatArray) -> PriceBelief:
        """What is believed at `now_ns`; the state is unchanged. `list_price` is the one in force, NaN where there is
        none: of one that no bill has come for yet the factor is doubted as at the start."""
        block = self.take(idx)
        var = _drifted(block, np.full(idx.size, float(now_ns // 1_000_000)))
        var = np.where(np.isfinite(list_price), _after_change(block, var, list_price), var)
        paid_mean = np.exp(block[LOG_FACTOR])  # the median: doubt alone makes nothing dearer
        paid_share = block[PAID_BILLS] / (block[ZERO_BILLS] + block[PAID_BILLS])
        mean = paid_share * paid_mean
        second = paid_share * paid_mean * paid_mean * np.exp(var)
        return PriceBelief(
            factor=mean,
            var=np.maximum(second - mean * mean, 0.0),
            prior=block[EVIDENCE] == 0,
            changed=block[CHANGED] > 0,
        )


def _observe(
    block: FloatArray,
    drift: FloatArray,
    listed: FloatArray,
    paid: BoolArray,
    zero_bill: FloatArray,
    paid_bill: FloatArray,
    log_factor: FloatArray,
    noise: FloatArray,
) -> None:
    """One bill per series, in place."""
    var = _after_change(block, _grown(block[VAR], drift), listed)
    # What was expected before any bill came weighs nothing against one.
    block[VAR] = np.where(block[EVIDENCE] == 0, UNKNOWN_VAR, var)
    news = listed != block[LIST_PRICE]
    block[STREAK] = np.where(news, 0.0, block[STREAK])
    block[CHANGED] = np.where(news, 0.0, block[CHANGED])
    block[LIST_PRICE] = listed
    block[ZERO_BILLS] = _FORGET_BILLS * block[ZERO_BILLS] + zero_bill
    block[PAID_BILLS] = _FORGET_BILLS * block[PAID_BILLS] + paid_bill
    block[EVIDENCE] += 1.0
    if np.count_nonzero(paid) == paid.size:
        _update(block, log_factor, noise)
    else:
        part = block[:, paid]
        _update(part, log_factor[paid], noise[paid])
        block[:, paid] = part


def _after_change(block: FloatArray, var: FloatArray, listed: FloatArray) -> FloatArray:
    """The variance, no less than at the start where another list price is in force than when the last bill came."""
    return np.where(listed != block[LIST_PRICE], np.maximum(var, LISTED_VAR), var)


def _drifted(block: FloatArray, at_ms: FloatArray) -> FloatArray:
    days = np.maximum(at_ms - block[AT_MS], 0.0) / DAY_MS
    return np.where(block[AT_MS] > 0, _grown(block[VAR], _DRIFT_VAR_PER_DAY * days), block[VAR])


def _grown(var: FloatArray, drift: FloatArray) -> FloatArray:
    """Variance after a time without bills: never more doubt than at the start."""
    return np.minimum(var + drift, np.maximum(var, UNKNOWN_VAR))


def _update(block: FloatArray, log_factor: FloatArray, noise: FloatArray) -> None:
    noise = noise * block[SCALE]
    error = log_factor - block[LOG_FACTOR]
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
    block[LOG_FACTOR] += gain * error
    block[VAR] = (1.0 - gain) * (1.0 - gain) * var + gain * gain * noise
    scale = block[SCALE] + (np.minimum(surprise, 16.0) - 1.0) * block[SCALE] / block[SCALE_WEIGHT]
    block[SCALE] = np.minimum(np.maximum(scale, 1.0), _MAX_SCALE)
    block[SCALE_WEIGHT] = _SCALE_FORGET * block[SCALE_WEIGHT] + 1.0


def _streak(streak: FloatArray, error: FloatArray, surprise: FloatArray) -> FloatArray:
    """Signed count of surprising bills in a row in one direction."""
    way = np.where(error >= 0, 1.0, -1.0)
    going = np.where(streak * way > 0, streak, 0.0)
    return np.where(surprise > _NIS_LIMIT, going + way, 0.0)
