"""The chance to run dry of a window that opened with a first request, read as such windows went. Pure.

They begin busy and often end in rest: whoever opened one may be gone for the day, which the chain of a series, that
counts the nights too, learns slowly. So the model's chance is read in log odds, less the longer nothing was used.
"""

import numpy as np

from tidegate.estimator.columns import BoolArray, FloatArray

# Logistic regression on week one of ServeGen, windows that open with a first request of clients that mostly rest:
# see tests/bench/forecast/first_request_fit.py. Declared: they hold for every such window, taught or not.
OWN, IDLE, PER_LOG_BIN, CONSTANT = 0.52, -0.41, -0.40, -0.17
SURE = 1e-3
"""Chances nearer to 0 or 1 count as this far away: the draws tell no more."""


def features(p: FloatArray, idle_bins: FloatArray) -> FloatArray:
    """What the chance is read from, (4, n): log odds of the model, idle or not, log of 1 + idle bins, and one."""
    sure = np.clip(p, SURE, 1.0 - SURE)
    odds = np.log(sure / (1.0 - sure))
    return np.stack((odds, np.where(idle_bins > 0, 1.0, 0.0), np.log1p(idle_bins), np.ones_like(odds)))


def read(p: FloatArray, idle_bins: FloatArray, opened: BoolArray) -> FloatArray:
    """The chance `p` of the windows that `opened` with a first request and have been idle for so many bins; the others
    as they are. All arrays (n,)."""
    odds, idle, age, one = features(p, idle_bins)
    said = OWN * odds + IDLE * idle + PER_LOG_BIN * age + CONSTANT * one
    found: FloatArray = np.where(opened, 1.0 / (1.0 + np.exp(-said)), p)
    return found
