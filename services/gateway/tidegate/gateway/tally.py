"""Counts of one worker: plain numbers on the hot path, rendered as metrics elsewhere."""

from bisect import bisect_left

from tidegate.events.requests import RequestOutcome
from tidegate.gateway.job import Job

OVERHEAD_BOUNDS_US = (50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400)


class Tally:
    """What happened since start."""

    __slots__ = (
        "attempts",
        "cost_nanousd",
        "in_flight",
        "outcomes",
        "overhead_counts",
        "overhead_sum_us",
        "refused",
        "unauthenticated",
        "unrecorded",
    )

    def __init__(self) -> None:
        self.in_flight = 0
        self.refused = 0
        self.unauthenticated = 0
        self.unrecorded = 0
        self.attempts = 0
        self.cost_nanousd = 0
        self.outcomes: dict[RequestOutcome, int] = {
            "completed": 0,
            "failed": 0,
            "truncated": 0,
            "cancelled": 0,
        }
        self.overhead_counts = [0] * (len(OVERHEAD_BOUNDS_US) + 1)
        self.overhead_sum_us = 0

    def finished(self, job: Job, outcome: RequestOutcome) -> None:
        """Count one request that reached its end."""
        self.outcomes[outcome] += 1
        self.attempts += job.attempts
        self.cost_nanousd += job.cost_nanousd or 0
        overhead_us = max(0, job.clock.mono_ns() - job.started_ns - job.waited_ns) // 1_000
        self.overhead_counts[bisect_left(OVERHEAD_BOUNDS_US, overhead_us)] += 1
        self.overhead_sum_us += overhead_us
