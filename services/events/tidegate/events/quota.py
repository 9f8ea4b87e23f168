"""Arithmetic of quota windows, shared by who plans a use, who settles it and who counts it. Pure."""

from collections.abc import Iterable

from tidegate.events.config import Target, Window
from tidegate.events.money import Tokens

NS_PER_S = 1_000_000_000

SLICES = 60
"""A rolling window is counted in slices of a sixtieth: a use counts until the last one of its slice would be over."""

REFERENCE_INPUT_TOKENS, REFERENCE_OUTPUT_TOKENS = 4_000, 500
"""A request as it is assumed where only its price is asked."""
REFERENCE_NANOUSD = 10_000_000
"""Value of such a request where nobody lists a price."""
PRIOR_SHARE = 0.25
"""λ begins at this share of the reference value: quota nobody has asked for yet is worth something."""


def duration_ns(window: Window) -> int:
    """Length of one period in nanoseconds, at least 1."""
    return max(1, int(window.duration_s * NS_PER_S + 0.5))


def slice_ns(length_ns: int) -> int:
    """Width of the slices of a rolling window of that length; they lie at multiples of it since the epoch."""
    return max(1, -(-length_ns // SLICES))


def counts_for_ns(window: Window) -> int:
    """How long after the start of its period a use counts: of a rolling window until all of its slice is out."""
    length_ns = duration_ns(window)
    return (SLICES + 1) * slice_ns(length_ns) if window.kind == "rolling" else length_ns


def period_start_ns(window: Window, now_ns: int, opened_ns: int | None = None) -> int:
    """Start of the period a use at `now_ns` belongs to; periods are half-open, [start, start + duration).

    `fixed` periods start at `anchor_ns` + k·duration, also before the anchor. A `first_request` period is the
    one that began at `opened_ns` while it lasts, else it begins with this use. Of a `rolling` window it is the
    start of the slice of `now_ns`.
    """
    length_ns = duration_ns(window)
    if window.kind == "rolling":
        return now_ns - now_ns % slice_ns(length_ns)
    if window.kind == "fixed":
        return now_ns - (now_ns - window.anchor_ns) % length_ns
    if opened_ns is not None and now_ns < opened_ns + length_ns:
        return opened_ns
    return now_ns


def units_of(
    window: Window, tokens: Tokens | None, requests: int, cost_nanousd: int | None, weight: float = 1.0
) -> int | None:
    """Use of `requests` requests in the window's own unit; None when what it counts is unknown.

    `weight` is how often the model counts there.

    `tokens` counts every known class once (reasoning is a part of output). `cost_nanousd` is the cost at list
    price, also in a flat pool, where the window counts dollars that nobody is billed.
    """
    if window.unit == "requests":
        return weighted(requests, weight)
    if window.unit == "tokens":
        return None if tokens is None else weighted(tokens.known_total(), weight)
    return None if cost_nanousd is None else weighted(cost_nanousd, weight)


def weighted(units: int, weight: float) -> int:
    """`units` ≥ 0 that count `weight` times; a part of a unit counts as one, else small requests would be free."""
    if weight == 1.0:
        return units
    whole = int(units * weight)
    return whole if whole == units * weight else whole + 1


def reference_nanousd(window: Window, targets: Iterable[Target]) -> float:
    """Value of one unit by the pool's list prices, in nano-dollars: what its dearest target would charge."""
    if window.unit == "nanousd":
        return 1.0
    inputs, outputs = 0, 0
    for target in targets:
        if target.prices:
            price = target.prices[-1]
            inputs, outputs = max(inputs, price.input_uncached or 0), max(outputs, price.output or 0)
    if window.unit == "tokens":
        per_token = inputs / 1e6
        return per_token if per_token > 0 else REFERENCE_NANOUSD / REFERENCE_INPUT_TOKENS
    request = (REFERENCE_INPUT_TOKENS * inputs + REFERENCE_OUTPUT_TOKENS * outputs) / 1e6
    return request if request > 0 else float(REFERENCE_NANOUSD)


def prior_shadow_nanousd(window: Window, targets: Iterable[Target]) -> float:
    """λ at the start of a period of which nothing is believed, nano-dollars per unit; > 0."""
    return PRIOR_SHARE * reference_nanousd(window, targets)
