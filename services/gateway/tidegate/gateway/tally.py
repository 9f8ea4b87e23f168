"""Counts of one worker: plain numbers on the hot path, rendered as metrics elsewhere."""

from tidegate.events.requests import RequestOutcome
from tidegate.gateway.histogram import Histogram
from tidegate.gateway.job import Job

OVERHEAD_BOUNDS_US = (50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600, 51_200, 102_400)
DURATION_BOUNDS_US = tuple(
    ms * 1_000 for ms in (50, 100, 250, 500, 1_000, 2_500, 5_000, 10_000, 30_000, 60_000)
)
FIRST_TOKEN_BOUNDS_US = tuple(
    ms * 1_000 for ms in (25, 50, 100, 200, 400, 800, 1_600, 3_200, 6_400, 12_800, 25_600)
)


class Tally:
    """What happened since start."""

    __slots__ = (
        "attempts",
        "cost_nanousd",
        "duration",
        "first_token",
        "in_flight",
        "outcomes",
        "overhead",
        "refused",
        "unauthenticated",
        "unpriced",
        "unrecorded",
    )

    def __init__(self) -> None:
        self.in_flight = 0
        self.refused = 0
        self.unauthenticated = 0
        self.unrecorded = 0
        self.unpriced = 0
        """Requests of which nobody knows what they cost: they are in no sum."""
        self.attempts = 0
        self.cost_nanousd = 0
        self.outcomes: dict[RequestOutcome, int] = {
            "completed": 0,
            "failed": 0,
            "truncated": 0,
            "cancelled": 0,
        }
        self.overhead = Histogram(OVERHEAD_BOUNDS_US)
        """Our own part of a request: all but waiting for upstreams and clients."""
        self.duration = Histogram(DURATION_BOUNDS_US)
        self.first_token = Histogram(FIRST_TOKEN_BOUNDS_US)

    def finished(self, job: Job, outcome: RequestOutcome) -> None:
        """Count one request that reached its end."""
        self.outcomes[outcome] += 1
        self.attempts += job.attempts
        self.cost_nanousd += job.cost_nanousd or 0
        self.unpriced += job.cost_nanousd is None
        duration_ns = job.clock.mono_ns() - job.started_ns
        self.duration.observe(duration_ns)
        self.overhead.observe(max(0, duration_ns - job.waited_ns))
        if job.ttft_ns is not None:
            self.first_token.observe(job.ttft_ns)
