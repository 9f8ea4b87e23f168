"""Reading a belief: the value when it says something, whole numbers from real ones. Pure."""

from tidegate.events.snapshots import Belief

MAX_BELIEF = 1e15
"""A belief that is negative, not a number or above this says nothing: its prior stands in."""


def mean(belief: Belief | None) -> float | None:
    """The believed value, None when the belief says nothing."""
    if belief is None or not 0.0 <= belief.mean <= MAX_BELIEF:
        return None
    return belief.mean


def half_up(value: float) -> int:
    """The nearest integer of a value ≥ 0, ties up."""
    return int(value + 0.5)


def ceiling(value: float) -> int:
    """The least integer not below a value ≥ 0."""
    whole = int(value)
    return whole if whole == value else whole + 1
