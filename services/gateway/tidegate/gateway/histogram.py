"""How often a time fell into which bucket: two additions on the hot path."""

from bisect import bisect_left


class Histogram:
    """Counts of times in microseconds, told in seconds as Prometheus names them."""

    __slots__ = ("_bounds_us", "_counts", "_sum_us")

    def __init__(self, bounds_us: tuple[int, ...]) -> None:
        self._bounds_us = bounds_us
        self._counts = [0] * (len(bounds_us) + 1)
        self._sum_us = 0

    def observe(self, time_ns: int) -> None:
        """Count one time; a bucket takes what is at most its bound."""
        time_us = time_ns // 1_000
        self._counts[bisect_left(self._bounds_us, time_us)] += 1
        self._sum_us += time_us

    def numbers(self, name: str) -> dict[str, float]:
        """`<name>_bucket{le="…"}` (how many took at most so many seconds, `+Inf` all) and `<name>_sum` (seconds)."""
        found: dict[str, float] = {}
        so_far = 0
        for bound_us, count in zip((*self._bounds_us, None), self._counts, strict=True):
            so_far += count
            bound = "+Inf" if bound_us is None else f"{bound_us / 1e6:g}"
            found[f'{name}_bucket{{le="{bound}"}}'] = so_far
        found[f"{name}_sum"] = self._sum_us / 1e6
        return found
