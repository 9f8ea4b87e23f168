"""Is a target well? A Beta posterior of the error rate that forgets by request and by time, and a CUSUM."""

from typing import NamedTuple

import numpy as np

from tidegate.estimator.beta import beta_cdf, beta_quantile
from tidegate.estimator.columns import BoolArray, Columns, FloatArray, IntArray, milliseconds
from tidegate.estimator.rounds import elapsed_ms, scan

ERRORS, SUCCESSES, CUSUM, THROTTLED, EVIDENCE, AT_MS = range(6)

PRIOR_ERRORS, PRIOR_SUCCESSES = 0.2, 9.8
_HALF_LIFE_REQUESTS = 60.0
_HALF_LIFE_MS = 600_000.0
_KEEP = 0.5 ** (1.0 / _HALF_LIFE_REQUESTS)
_HEALTHY_RATE, _SICK_RATE = 0.01, 0.15
_STEP_ERROR = float(np.log(_SICK_RATE / _HEALTHY_RATE))
_STEP_SUCCESS = float(np.log((1.0 - _SICK_RATE) / (1.0 - _HEALTHY_RATE)))
SUSPICION = 7.0
_KEEP_AT_ALARM = 0.6
_BOUND = 0.05
EJECT_LIMIT = 0.05
"""A target is ejected when its error rate exceeds this with 95 % belief."""


class HealthBelief(NamedTuple):
    """Per target."""

    success_mean: FloatArray
    success_var: FloatArray
    success_lower: FloatArray
    """5 % point of the success rate: what viability may count on."""
    error_lower: FloatArray
    """5 % point of the error rate: what ejection needs to see above its limit."""
    ejected: BoolArray
    suspected: BoolArray
    """CUSUM alarm: a change from 1 % to 15 % errors is likelier than not; probe, do not eject."""
    throttled: FloatArray
    """Refusals for quota, forgetting with 10 minutes half-life; not ill health."""
    prior: BoolArray


class Health(Columns):
    """Evidence beyond the prior, with a half-life of 60 requests and of 10 minutes."""

    FIELDS = ("errors", "successes", "cusum", "throttled", "evidence", "at_ms")
    PRIOR = (0.0, 0.0, 0.0, 0.0, 0.0, 0.0)

    def observe(self, idx: IntArray, ts_ns: IntArray, error: BoolArray, quota: BoolArray) -> None:
        """Outcomes of targets, which may repeat and keep their order. `quota` marks refusals for quota or rate
        (429): they count as throttling and leave error rate and CUSUM alone, whatever `error` says."""
        judged = ~quota
        keep = np.where(judged, _KEEP, 1.0)
        step = np.where(error, _STEP_ERROR, _STEP_SUCCESS)
        left = _left_after(elapsed_ms(self.data[AT_MS], idx, milliseconds(ts_ns)))
        failed, fine = (judged & error).astype(np.float64), (judged & ~error).astype(np.float64)
        throttled = quota.astype(np.float64)
        scan(self, idx, (left, keep, failed, fine, step, judged, throttled), _observe)

    def belief(self, idx: IntArray, now_ns: int, limit: float = EJECT_LIMIT) -> HealthBelief:
        """What is believed at `now_ns`; the state is unchanged. `limit` is the error rate that ejects."""
        block = self.take(idx)
        known = block[AT_MS]
        left = _left_after(np.where(known > 0, np.maximum(float(now_ns // 1_000_000) - known, 0.0), 0.0))
        for field in (ERRORS, SUCCESSES, THROTTLED):
            block[field] *= left
        bad, good = block[ERRORS] + PRIOR_ERRORS, block[SUCCESSES] + PRIOR_SUCCESSES
        total = bad + good
        mean = good / total
        # Both bounds in one call: half the steps.
        bounds = beta_quantile(_BOUND, np.concatenate((good, bad)), np.concatenate((bad, good)))
        return HealthBelief(
            success_mean=mean,
            success_var=mean * (1.0 - mean) / (total + 1.0),
            success_lower=bounds[: idx.size],
            error_lower=bounds[idx.size :],
            ejected=beta_cdf(np.full(idx.size, limit), bad, good) < _BOUND,
            suspected=block[CUSUM] >= SUSPICION,
            throttled=block[THROTTLED],
            prior=block[EVIDENCE] == 0,
        )


def _observe(
    block: FloatArray,
    left: FloatArray,
    keep: FloatArray,
    failed: FloatArray,
    fine: FloatArray,
    step: FloatArray,
    judged: BoolArray,
    throttled: FloatArray,
) -> None:
    """One outcome per target, in place. `left`: what time leaves of the counts, `keep`: what the request does."""
    cusum = block[CUSUM]
    block[ERRORS] = block[ERRORS] * left * keep + failed
    block[SUCCESSES] = block[SUCCESSES] * left * keep + fine
    # Capped at twice the alarm, so that recovery takes at most some fifty successes.
    moved = np.minimum(np.maximum(cusum + step, 0.0), 2.0 * SUSPICION)
    alarm = judged & (cusum < SUSPICION) & (moved >= SUSPICION)
    if np.count_nonzero(alarm):
        # Successes from before the change say little about now: the Beta bound then needs 34 requests at 20 %
        # errors instead of 53, for one false ejection a week at one request a second.
        block[SUCCESSES] *= np.where(alarm, _KEEP_AT_ALARM, 1.0)
    np.copyto(cusum, moved, where=judged)
    block[THROTTLED] = block[THROTTLED] * left + throttled
    block[EVIDENCE] += judged


def _left_after(elapsed: FloatArray) -> FloatArray:
    return np.exp2(-elapsed / _HALF_LIFE_MS)
