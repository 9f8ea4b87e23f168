"""How an attempt ends in money: reported, provably unbilled, or estimated. Pure."""

import msgspec

from tidegate.events.decision import WindowUse
from tidegate.events.money import ListPrice, Tokens, cost_nanousd
from tidegate.events.quota import units_of
from tidegate.events.signals import AttemptStarted, Outcome, UsageSettled
from tidegate.events.types import Basis
from tidegate.gateway.serving import ServedTarget

NOTHING = Tokens(input_uncached=0, output=0)


class Ending(msgspec.Struct, frozen=True, kw_only=True):
    """What is known when an attempt ends. `billed` False: no request byte left, or an error status came."""

    outcome: Outcome
    tokens: Tokens = Tokens()
    billed: bool = True
    told_tier: str | None = None
    """How the provider says it served the request, in the words of `tiers`; None when it did not say."""
    produced_tokens: int | None = None
    """Output seen so far, when the provider did not say."""
    model: str | None = None
    evidence: bool = True


def settle(
    started: AttemptStarted,
    ending: Ending,
    target: ServedTarget,
    list_price: ListPrice | None,
    *,
    duration_ns: int | None = None,
    ttft_ns: int | None = None,
) -> UsageSettled:
    """The settlement. Where usage is estimated, `tokens` keeps only what was reported: unknown stays unknown.

    `list_price` is what the tokens are worth in a flat pool: windows in dollars count it. The price told is the
    one the cost was computed with: of a price with variants, those of this length and service tier. A tier of which
    the provider said nothing is taken to be the one that was asked for.
    """
    basis: Basis = "reported"
    counted = ending.tokens
    if not ending.billed:
        basis, counted = "none", NOTHING
    elif counted.input_uncached is None or counted.output is None:
        basis, counted = "estimated", _assume(started, ending)
    if ending.told_tier is None and started.service_tier is not None:
        counted = msgspec.structs.replace(counted, service_tier=started.service_tier)
    cost = 0 if basis == "none" else _cost(counted, started.price)
    return UsageSettled(
        attempt=started.attempt,
        target=started.target,
        pool=started.pool,
        route=started.route,
        basis=basis,
        outcome=ending.outcome,
        tokens=ending.tokens,
        cost_nanousd=cost,
        price=None if started.price is None else started.price.plain_for(counted),
        windows=_uses(
            started,
            target,
            _at_least(counted, ending) if basis == "estimated" else counted,
            list_price if target.pool.billing == "flat" else started.price,
            requests=int(ending.billed),
        ),
        duration_ns=duration_ns,
        ttft_ns=ttft_ns,
        input_estimate=started.known_input_estimate(),
        model=ending.model,
        evidence=ending.evidence,
        prefix_tokens=started.prefix_tokens,
        prefix_age_ns=started.prefix_age_ns,
    )


def _cost(tokens: Tokens, price: ListPrice | None) -> int | None:
    return None if price is None else cost_nanousd(tokens, price)


def _assume(started: AttemptStarted, ending: Ending) -> Tokens:
    known = ending.tokens
    output = known.output
    if output is None:
        output = started.reserve_output_tokens if ending.produced_tokens is None else ending.produced_tokens
    if known.input_uncached is None:
        return Tokens(
            input_uncached=started.input_tokens,
            output=output,
            web_searches=known.web_searches,
            service_tier=known.service_tier,
        )
    return msgspec.structs.replace(known, output=output)


def _at_least(assumed: Tokens, ending: Ending) -> Tokens:
    """What a window is told of a client that left: no output but what was seen. The reserve, which the ledger keeps
    until a bill comes, would let clients that leave early shut a window for everybody."""
    if (
        ending.outcome != "cancelled"
        or ending.tokens.output is not None
        or ending.produced_tokens is not None
    ):
        return assumed
    return msgspec.structs.replace(assumed, output=0)


def _uses(
    started: AttemptStarted,
    target: ServedTarget,
    tokens: Tokens,
    list_price: ListPrice | None,
    requests: int,
) -> tuple[WindowUse, ...]:
    if not started.windows:
        return ()
    dollars = _cost(tokens, list_price)
    uses: list[WindowUse] = []
    for reserved in started.windows:
        window = target.windows.get(reserved.window)
        if window is not None:
            weight = target.config.quota_weight * reserved.peak
            units = units_of(window, tokens, requests, dollars, weight)
            uses.append(reserved if units is None else msgspec.structs.replace(reserved, units=units))
    return tuple(uses)
