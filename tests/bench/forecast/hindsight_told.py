"""What a shadow price would save if somebody told it of the future: how much of the loss is not knowing it.

`told_demand` is told how many units are still asked for in the window, and has the values of the six windows before.
`told_all` is told what each of those requests is expected to save and to use; it only does not know their outputs, and
decides them in their order, whole. A policy that knows the past alone learns both as it goes, so what lies above
`told_all` is the output's, and what lies between is the future's: neither is the price's to save.
(Of values that are all alike neither tells which to serve: both serve who comes first.)
"""

from typing import Literal, Protocol

import numpy as np

from bench.forecast.hindsight_streams import START_NS, Stream
from tidegate.estimator.columns import FloatArray

Told = Literal["told_demand", "told_all"]
TOLD: tuple[Told, ...] = ("told_demand", "told_all")
STEPS = 60
"""How often in a window the price is worked out again."""
_PAST_WINDOWS = 6


class Priced(Protocol):
    """A plan of one window that goes by the price it is given."""

    left: list[int]
    period: list[int]
    price: list[float]

    def take(self, k: int, at_ns: int) -> bool: ...


def decide_told(
    stream: Stream, plan: Priced, told: Told, value: FloatArray, units: FloatArray, quota: int
) -> None:
    """Let the plan decide every request under a price that knows this much. `value` is of a unit; `units` and it are
    as expected."""
    length_ns = stream.window_ns
    step_ns = length_ns // STEPS
    step = (stream.at_ns - START_NS) // step_ns
    for requests in np.split(np.arange(step.size), np.flatnonzero(np.diff(step)) + 1):
        first = int(requests[0])
        at_ns = int(stream.at_ns[first])
        start_ns = at_ns - (at_ns - START_NS) % length_ns
        past_ns, end_ns = start_ns - _PAST_WINDOWS * length_ns, start_ns + length_ns
        past, end = np.searchsorted(stream.at_ns, (past_ns, end_ns)).tolist()
        left = float(quota if plan.period[0] != start_ns else max(plan.left[0], 0))
        rest = float(units[first:end].sum())
        known = slice(first, end) if told == "told_all" else slice(past, first)
        plan.price = [_price(value[known], units[known], left, rest)]
        for k in requests.tolist():
            plan.take(k, int(stream.at_ns[k]))


def _price(value: FloatArray, units: FloatArray, left: float, rest: float) -> float:
    """Value of the last unit served when the dearest `left` of `rest` are; 0 when all are, or nothing is known."""
    if left >= rest or not value.size:
        return 0.0
    order = np.argsort(-value, kind="stable")
    served = np.cumsum(units[order])
    at = int(np.searchsorted(served, left / rest * served[-1]))
    return float(value[order[min(at, value.size - 1)]])
