"""What a provider's prompt cache keeps: does a session's prefix survive, and what share of all input is cached? Pure.

A prefix that the session left on the target is an observation of P(alive) at its age: the share of it that was read
again. Beta counts that forget, one pair per age; older ages are not expected to survive better than younger ones.
A short prefix counts less than a long one: it is tokens that are paid, and providers keep nothing below some length.
"""

from typing import NamedTuple

AGE_TO_S = (60.0, 300.0, 900.0, 3_600.0)
"""Upper ends of the age classes, half-open; one more class is open."""
_FORGET = 0.99
_FULL_WEIGHT_TOKENS = 16_384
"""From this length on a prefix counts in full."""
_ALIVE = (1.9, 1.6, 0.4, 0.2, 0.04)
_GONE = (0.1, 0.4, 1.6, 1.8, 1.96)
"""Worth two prefixes of full weight: most are kept whole or not at all, so the first few tell which."""
_CLASSES = len(AGE_TO_S) + 1
_SHARE, _WEIGHT = 2 * _CLASSES, 2 * _CLASSES + 1
NUMBERS = 2 * _CLASSES + 2
"""Kept counts and lost counts by age, then the sum of cached shares and its weight."""


class Survival(NamedTuple):
    """Expected share of a prefix of this age that is read from the cache; `prior` until one of it was seen."""

    to_age_s: float | None
    mean: float
    var: float
    prior: bool


class Share(NamedTuple):
    """Expected share of a prompt that is read from the cache, over all requests; one half of one is the prior."""

    mean: float
    var: float


def fresh() -> list[float]:
    """Nothing seen yet."""
    return [0.0] * NUMBERS


def restored(stored: list[float]) -> list[float]:
    """State as it was stored; an older version stored none. Raises ValueError when it is not of this model."""
    if stored and len(stored) != NUMBERS:
        raise ValueError(f"cache state has {len(stored)} numbers, needs {NUMBERS}")
    return list(stored) or fresh()


def observe_share(numbers: list[float], read: int, prompt: int) -> None:
    """An answered prompt of `prompt` > 0 tokens, of which `read` came from the cache."""
    numbers[_SHARE] = _FORGET * numbers[_SHARE] + read / prompt
    numbers[_WEIGHT] = _FORGET * numbers[_WEIGHT] + 1.0


def observe_prefix(numbers: list[float], read: int, prefix: int, age_ns: int) -> None:
    """A prefix of `prefix` > 0 tokens that the session left `age_ns` ago; `read` tokens came from the cache."""
    at = _age_class(age_ns / 1e9)
    kept = min(read, prefix) / prefix
    weight = min(prefix / _FULL_WEIGHT_TOKENS, 1.0)
    forget = 1.0 - weight * (1.0 - _FORGET)
    numbers[at] = forget * numbers[at] + weight * kept
    numbers[_CLASSES + at] = forget * numbers[_CLASSES + at] + weight * (1.0 - kept)


def survival(numbers: list[float]) -> tuple[Survival, ...]:
    """By age class, youngest first; the means never rise with age.

    A class nobody saw yet is believed to keep at least what an older one was seen to keep.
    """
    counts = [(numbers[k], numbers[_CLASSES + k]) for k in range(_CLASSES)]
    means = [
        (kept + _ALIVE[k]) / (kept + lost + _ALIVE[k] + _GONE[k]) for k, (kept, lost) in enumerate(counts)
    ]
    floor = 0.0
    for k in range(_CLASSES - 1, -1, -1):
        if sum(counts[k]) > 0:
            floor = max(floor, means[k])
        else:
            means[k] = max(means[k], floor)
    found: list[Survival] = []
    ceiling = 1.0
    for k, (kept, lost) in enumerate(counts):
        ceiling = min(ceiling, means[k])
        total = kept + lost + _ALIVE[k] + _GONE[k]
        to_age_s = AGE_TO_S[k] if k < len(AGE_TO_S) else None
        var = ceiling * (1.0 - ceiling) / (total + 1.0)
        found.append(Survival(to_age_s, ceiling, var, prior=kept + lost <= 0))
    return tuple(found)


def share(numbers: list[float]) -> Share | None:
    """Of the target's prompts as they come; None until one was seen."""
    weight = numbers[_WEIGHT]
    if weight <= 0:
        return None
    mean = (numbers[_SHARE] + 0.5) / (weight + 1.0)
    return Share(mean, mean * (1.0 - mean) / (weight + 2.0))


def _age_class(age_s: float) -> int:
    for k, end_s in enumerate(AGE_TO_S):
        if age_s < end_s:
            return k
    return len(AGE_TO_S)
