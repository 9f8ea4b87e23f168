"""Expected output of a target model by route: log-normal, shrunk to what is believed of the whole target. Pure.

A route's own mean counts as much as the answers it had, the target's as much as eight. Older answers are forgotten
at the pace of the rate filters.
"""

import math
from typing import NamedTuple

_FORGET = 0.985
_SHRINK = 8.0
_MAX_LOG = 40.0
_NUMBERS = 3

Held = dict[str, list[float]]
"""Of one target, by route: weight, mean of the log, sum of squared deviations of the log."""


class Length(NamedTuple):
    """Output tokens of the next answer: the mean expected, and the variance of that mean's estimate."""

    mean: float
    var: float


def observe(held: Held, route: str, tokens: int) -> None:
    """One complete answer of `tokens` > 0 output tokens."""
    log_tokens = math.log(tokens)
    numbers = held.get(route)
    if numbers is None:
        held[route] = [1.0, log_tokens, 0.0]
        return
    weight, mean, squares = numbers
    numbers[0] = weight = _FORGET * weight + 1.0
    error = log_tokens - mean
    numbers[1] = mean = mean + error / weight
    numbers[2] = _FORGET * squares + error * (log_tokens - mean)


def expected(numbers: list[float], level: float, scale: float) -> Length:
    """What a route's answers are expected to be; `level` and `scale` are the target's mean and variance of the log."""
    weight, mean, squares = numbers
    total = weight + _SHRINK
    centre = (weight * mean + _SHRINK * level) / total
    spread = (squares + _SHRINK * scale) / total
    doubt = spread / total
    value = math.exp(min(centre + 0.5 * (spread + doubt), _MAX_LOG))
    return Length(value, value * value * math.expm1(min(doubt, _MAX_LOG)))


def restored(stored: Held) -> Held:
    """State as it was stored. Raises ValueError when it is not of this model."""
    for route, numbers in stored.items():
        if len(numbers) != _NUMBERS:
            raise ValueError(f"length of route {route!r} has {len(numbers)} numbers, needs {_NUMBERS}")
    return {route: list(numbers) for route, numbers in stored.items()}
