"""Arithmetic of quota windows, shared by who plans a use, who settles it and who counts it. Pure."""

from tidegate.events.config import Window
from tidegate.events.money import Tokens

NS_PER_S = 1_000_000_000


def duration_ns(window: Window) -> int:
    """Length of one period in nanoseconds, at least 1."""
    return max(1, int(window.duration_s * NS_PER_S + 0.5))


def period_start_ns(window: Window, now_ns: int, opened_ns: int | None = None) -> int:
    """Start of the period a use at `now_ns` belongs to; periods are half-open, [start, start + duration).

    `fixed` periods start at `anchor_ns` + k·duration, also before the anchor. A `first_request` period is the
    one that began at `opened_ns` while it lasts, else it begins with this use.
    """
    length_ns = duration_ns(window)
    if window.kind == "fixed":
        return now_ns - (now_ns - window.anchor_ns) % length_ns
    if opened_ns is not None and now_ns < opened_ns + length_ns:
        return opened_ns
    return now_ns


def units_of(window: Window, tokens: Tokens | None, requests: int, cost_nanousd: int | None) -> int | None:
    """Use of `requests` requests in the window's own unit; None when what it counts is unknown.

    `tokens` counts every known class once (reasoning is a part of output). `cost_nanousd` is the cost at list
    price, also in a flat pool, where the window counts dollars that nobody is billed.
    """
    if window.unit == "requests":
        return requests
    if window.unit == "tokens":
        return None if tokens is None else tokens.known_total()
    return cost_nanousd
