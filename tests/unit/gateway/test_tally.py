"""What a worker counts: a cost that nobody knows is told apart from one of nothing."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

from tidegate.events.clock import ManualClock
from tidegate.gateway.tally import Tally


def test_requests_of_unknown_cost_are_counted_and_in_no_sum() -> None:
    tally = Tally()
    for cost in (None, 0, 7, None):
        job: Any = SimpleNamespace(
            attempts=1, cost_nanousd=cost, clock=ManualClock(), started_ns=0, waited_ns=0, ttft_ns=None
        )
        tally.finished(job, "completed")
    assert (tally.unpriced, tally.cost_nanousd, tally.outcomes["completed"]) == (2, 7, 4)
