"""What a request is charged by: the tier it was served at, the length of its prompt, and when it came."""

from typing import NamedTuple

from tidegate.simulator.config import Model, Tariff


class Charge(NamedTuple):
    """What of a request, beside its tokens, decides its prices."""

    service_tier: str | None = None
    arrived_s: float = 0.0
    """Unix seconds: whoever came before a change pays the price of then, however long the answer takes."""


class Prices(NamedTuple):
    """Nano-dollars per million tokens by class, per million searches, and per million requests."""

    input_uncached: int
    cache_read: int
    cache_write_5m: int
    cache_write_1h: int
    output: int
    web_search: int
    request: int


def served_tier(asked: str | None, model: Model) -> str | None:
    """The tier a request gets; None is the standard one, which is also what a tier that is not offered becomes."""
    if asked is None or asked == "auto":
        return model.usual_tier
    return asked if asked in model.tiers else None


def prices(model: Model, prompt_tokens: int, charge: Charge) -> Prices:
    """The model's prices, then those of each tariff that holds, the later before the earlier.

    A missing cache price is the uncached input price; other missing prices are 0.
    """
    found = {name: getattr(model, name) for name in Prices._fields}
    for tariff in model.tariffs:
        if _holds(tariff, prompt_tokens, charge):
            named = {name: getattr(tariff, name) for name in Prices._fields}
            found.update({name: price for name, price in named.items() if price is not None})
    uncached = found["input_uncached"] or 0
    return Prices(
        **{
            name: (uncached if name.startswith("cache") else 0) if price is None else price
            for name, price in found.items()
        }
    )


def _holds(tariff: Tariff, prompt_tokens: int, charge: Charge) -> bool:
    above = tariff.above_input_tokens
    return (
        charge.arrived_s >= tariff.from_s
        and tariff.service_tier in (None, charge.service_tier)
        and (above is None or prompt_tokens > above)
    )
