"""The third price of a flat plan: its fee per unit used. For reports and renewals, never for routing: the fee is sunk.

Fee × E[1/V] for a lognormal volume V, which is fee · exp(s²/2 - m); never fee ÷ E[V], which Jensen's inequality makes
too low. Beside it stand the cash price (nothing within the plan) and the shadow price of its quota.
"""

import math

import numpy as np

from tidegate.estimator.columns import FloatArray


def expected_amortised(fee: float, log_mean: float, log_sd: float) -> float:
    """The fee per unit of a volume V = exp(m + s·z) units, z standard normal; in the fee's currency."""
    return fee * math.exp(0.5 * log_sd * log_sd - log_mean)


def amortised_nanousd(fee_nanousd: float, used: float, draws: FloatArray) -> float | None:
    """Nano-dollars per unit of a period that costs `fee_nanousd`, of which `used` units are used and `draws` (n,) are
    equally likely values of what is still to come; None where nothing may ever be used, or is known.
    """
    volume = used + draws
    volume = volume[np.isfinite(volume) & (volume > 0)]
    if volume.size == 0:
        return None
    logs = [math.log(units) for units in volume.tolist()]
    mean = sum(logs) / len(logs)
    var = sum((log - mean) * (log - mean) for log in logs) / len(logs)
    return expected_amortised(fee_nanousd, mean, math.sqrt(var))
