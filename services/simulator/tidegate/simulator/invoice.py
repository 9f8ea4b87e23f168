"""The provider's own bill: exact integers, one rounding per attempt, a fixed fee for flat plans."""

from collections.abc import Iterable, Sequence
from typing import Any

import msgspec

from tidegate.simulator.config import Model, Provider
from tidegate.simulator.tariffs import Charge, prices
from tidegate.simulator.tokens import NO_TOKENS, TokenClasses

PER_TOKENS = 1_000_000
CLASSES = (
    "input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning", "web_searches",
)  # fmt: skip
_USUAL = Charge()


class Line(msgspec.Struct, kw_only=True):
    """One request that reached the provider. Open while `outcome` is None; money in nano-dollars.

    `outcome`: completed, cancelled (the client left), cut (a fault ended a billed answer), lost (billed, no
    byte sent), failed (a fault without a bill), refused (an error status before content).
    """

    ordinal: int
    provider: str
    attempt: str | None
    dialect: str
    model: str
    arrived_s: float
    served_model: str | None = None
    stream: bool | None = None
    fault: str | None = None
    status: int | None = None
    outcome: str | None = None
    billed: bool = False
    tokens: TokenClasses = NO_TOKENS
    service_tier: str | None = None
    cost_nanousd: int = 0
    settled_s: float | None = None
    body_bytes: int = 0
    body_sha256: str = ""
    header_names: tuple[str, ...] = ()


def cost_nanousd(tokens: TokenClasses, model: Model, charge: Charge = _USUAL) -> int:
    """Σ tokens × price ÷ 10⁶, rounded once, half up; reasoning is paid as the output it is part of.

    Models of flat plans may have no prices: they cost 0.
    """
    rates = prices(model, tokens.prompt, charge)
    parts = (
        tokens.input_uncached * rates.input_uncached,
        tokens.cache_read * rates.cache_read,
        tokens.cache_write_5m * rates.cache_write_5m,
        tokens.cache_write_1h * rates.cache_write_1h,
        tokens.output * rates.output,
        tokens.web_searches * rates.web_search,
        rates.request,
    )
    whole, rest = divmod(sum(parts), PER_TOKENS)
    return whole + (1 if rest * 2 >= PER_TOKENS else 0)


def summed(lines: Iterable[Line]) -> dict[str, int]:
    """Token totals by class, the number of lines, and their cost."""
    totals = dict.fromkeys(CLASSES, 0)
    totals |= {"requests": 0, "cost_nanousd": 0}
    for line in lines:
        for name in CLASSES:
            totals[name] += getattr(line.tokens, name)
        totals["requests"] += 1
        totals["cost_nanousd"] += line.cost_nanousd
    return totals


def invoice(provider: Provider, lines: Sequence[Line], balance_nanousd: int | None) -> dict[str, Any]:
    """The bill over `lines` (the billed ones are picked): lines, totals by model, fees, and the sum."""
    billed = [line for line in lines if line.billed]
    models = sorted({line.model for line in billed})
    flat = any((model.billing or provider.billing) == "flat" for model in provider.models)
    fee_nanousd = provider.fee_nanousd if flat else 0
    totals = summed(billed)
    return {
        "provider": provider.id,
        "lines": [bill_line(line) for line in billed],
        "models": {model: summed(line for line in billed if line.model == model) for model in models},
        "fees": [{"kind": "flat_plan", "fee_nanousd": fee_nanousd}] if flat else [],
        "totals": totals,
        "total_nanousd": totals["cost_nanousd"] + fee_nanousd,
        "balance_nanousd": balance_nanousd,
    }


def usage(attempt: str, lines: Sequence[Line]) -> dict[str, Any]:
    """What the provider knows of one attempt id: `unknown`, `open`, or `closed`; its lines and their sum."""
    state = "unknown" if not lines else "open" if any(line.outcome is None for line in lines) else "closed"
    billed = [line for line in lines if line.billed]
    return {
        "attempt": attempt,
        "state": state,
        "billed": bool(billed),
        "lines": [bill_line(line) for line in lines],
        "totals": summed(billed),
    }


def bill_line(line: Line) -> dict[str, Any]:
    """A line as it is shown: disjoint classes, cost, how it ended."""
    return {
        "attempt": line.attempt,
        "provider": line.provider,
        "model": line.model,
        "outcome": line.outcome,
        "billed": line.billed,
        "fault": line.fault,
        "service_tier": line.service_tier,
        "tokens": {name: getattr(line.tokens, name) for name in CLASSES},
        "cost_nanousd": line.cost_nanousd,
    }
