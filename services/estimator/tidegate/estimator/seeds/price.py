"""The seed's price filter: one scalar per provider, base rate and velocity in dollars per million tokens.

Plain two-state Kalman filter, one step per update whatever time passed. Known faults, kept: the first update sets
the velocity, a tripled price overshoots, and nothing keeps the rate positive.
"""

import math
from dataclasses import dataclass

_Q, _R = 1e-6, 1e-4
FLOOR = 0.001
"""Dollars per million tokens: no finite price is shown below it."""


@dataclass(slots=True)
class SeedPriceFilter:
    """State and covariance after any number of updates; starts at the seed rate with unit variances."""

    rate: float
    velocity: float = 0.0
    p00: float = 1.0
    p01: float = 0.0
    p11: float = 1.0

    def update(self, observed: float) -> None:
        """Predict one step ahead, then correct by an observed price, dollars per million tokens."""
        rate = self.rate + self.velocity
        p00 = self.p00 + 2.0 * self.p01 + self.p11 + _Q
        p01, p11 = self.p01 + self.p11, self.p11 + _Q
        total = p00 + _R
        k0, k1 = p00 / total, p01 / total
        error = observed - rate
        self.rate, self.velocity = rate + k0 * error, self.velocity + k1 * error
        self.p00, self.p01, self.p11 = (1.0 - k0) * p00, (1.0 - k0) * p01, p11 - k1 * p01

    def price(self) -> float:
        """The rate as it is shown, dollars per million tokens: 0 where the filter swung below it."""
        return max(0.0, self.rate)


def effective_price(base: float, *factors: float) -> float:
    """base × the multipliers, dollars per million tokens, floored after the product.

    Infinite or not a number anywhere is infinite: the seed disagreed with itself on 0 × ∞.
    """
    product = base
    for factor in factors:
        if math.isinf(factor):
            return math.inf
        product *= factor
    return max(product, FLOOR) if math.isfinite(product) else math.inf
