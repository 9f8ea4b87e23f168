"""The pool router's latency: an average that moves by 0.3 of every sample, and the band filter on it.

Known faults, kept: the first sample is blended with the declared 200 ms, and who was never tried looks fast.
"""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

INITIAL_MS = 200.0
WEIGHT = 0.3


@dataclass(slots=True)
class SeedLatency:
    """Average time to the first line of an answer, ms; `at_s` is the time of the last sample."""

    ewma_ms: float = INITIAL_MS
    samples: int = 0
    at_s: float = 0.0

    def observe(self, sample_ms: float, at_s: float) -> None:
        """Blend one sample in."""
        self.ewma_ms = (1.0 - WEIGHT) * self.ewma_ms + WEIGHT * sample_ms
        self.samples, self.at_s = self.samples + 1, at_s

    def expire(self, now_s: float, ttl_s: float = 3_600.0) -> None:
        """Forget everything once the last sample is older than `ttl_s`."""
        if self.samples and now_s - self.at_s > ttl_s:
            self.ewma_ms, self.samples, self.at_s = INITIAL_MS, 0, 0.0


def within_band(members: Sequence[str], ewma_ms: Mapping[str, float], buffer: float = 0.1) -> list[str]:
    """The members at most `buffer` slower than the fastest; all of them without a positive buffer."""
    if buffer <= 0 or len(members) <= 1:
        return list(members)
    limit = min(ewma_ms[member] for member in members) * (1.0 + buffer)
    return [member for member in members if ewma_ms[member] <= limit]
