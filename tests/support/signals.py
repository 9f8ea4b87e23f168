"""A seeded stream of signals in the demo's mix over pools, targets and windows; encoded records too.

Of 1,526 signals of a demo run: AttemptStarted and UsageSettled 28 % each, DemandSeen 21 % (two windows each),
FirstTokenSeen 20 %, AttemptFailed 2 %, SettlementCorrected 1 %; ids, sessions and causes as long as there. Half
of the settlements carry windows here, an eighth there.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from typing import Literal

from tidegate.events import codec
from tidegate.events.config import DatedPrice, Pool, Routing, Target, Window
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Draft
from tidegate.events.ids import format_uuid
from tidegate.events.log.port import Outgoing
from tidegate.events.money import ListPrice, Tokens, cost_nanousd
from tidegate.events.partition import partition_of
from tidegate.events.registry import type_of
from tidegate.events.signals import (
    AttemptFailed,
    AttemptStarted,
    DemandSeen,
    FirstTokenSeen,
    SettlementCorrected,
    UsageSettled,
)
from tidegate.events.topics import SIGNALS
from tidegate.events.types import AttemptId, Cause, DecisionId, EventId, PoolId, TargetId, WindowId

START_NS = 1_700_000_000_000_000_000
"""In the past: what a log takes from the future is pulled back to its own clock."""
HOUR_NS = 3_600 * 10**9
PRICE = ListPrice(
    input_uncached=3_000_000_000, cache_read=300_000_000, cache_write_5m=3_750_000_000, output=15_000_000_000
)
NEW_PRICE = ListPrice(input_uncached=2_000_000_000, cache_read=200_000_000, output=10_000_000_000)
FAILED, STREAMED, DEMANDED, CORRECTED = 0.078, 0.79, 0.75, 0.035
"""Shares of attempts, as in the demo; of the completed ones for streams."""
_CAUSES: tuple[Cause, ...] = (
    "rate_limited", "unavailable", "transport", "quota_exhausted", "invalid_request",
)  # fmt: skip


def uses(at_ns: int, tokens: int, *, first_request: bool = False) -> tuple[WindowUse, ...]:
    five, week = 5 * HOUR_NS, 168 * HOUR_NS
    return (
        WindowUse(WindowId("5h"), at_ns - at_ns % five, 1, five, first_request),
        WindowUse(WindowId("week"), at_ns - at_ns % week, tokens, week, first_request),
    )


def routing(pools: int) -> Routing:
    """The config that a stream over so many pools is of."""

    def windows(number: int) -> tuple[Window, ...]:
        kind: Literal["fixed", "first_request"] = "first_request" if number % 4 == 3 else "fixed"
        five = Window(id=WindowId("5h"), unit="requests", limit=5_000, duration_s=5 * 3_600.0, kind=kind)
        week = Window(id=WindowId("week"), unit="tokens", limit=10**9, duration_s=168 * 3_600.0, kind=kind)
        return (five, week) if number % 2 else ()

    price = DatedPrice(input_uncached=PRICE.input_uncached, output=PRICE.output)
    return Routing(
        pools=tuple(
            Pool(id=PoolId(f"pool-{n}"), billing="flat" if n % 2 else "per_token", windows=windows(n))
            for n in range(pools)
        ),
        targets=tuple(
            Target(
                id=TargetId(f"target-{n}"), pool=PoolId(f"pool-{n}"), dialect="openai", base_url="https://x",
                model="coder-large", prices=(price,),
            )
            for n in range(pools)
        ),
    )  # fmt: skip


class _Attempt:
    """One attempt of the stream, and the events that tell of it."""

    def __init__(self, rng: random.Random, number: int, at_ns: int, price: ListPrice) -> None:
        self.rng = rng
        self.pool, self.target = PoolId(f"pool-{number}"), TargetId(f"target-{number}")
        self.id = AttemptId(format_uuid(rng.getrandbits(128)))
        self.prompt, output = rng.randrange(100, 40_000), rng.randrange(10, 900)
        self.price = price
        cached = rng.randrange(self.prompt)
        self.tokens = Tokens(
            input_uncached=self.prompt - cached, cache_read=cached, output=output, reasoning=0
        )
        # Odd pools have windows, every other one of those a period that opens with its first request.
        used = uses(at_ns, self.prompt + output, first_request=number % 4 == 3)
        self.windows = used if number % 2 else ()

    def demand(self, at_ns: int, pools: int) -> DemandSeen:
        """Of the attempt's own pool when it has windows, else of one that could have served it."""
        number = int(self.pool[5:]) if self.windows else self.rng.randrange(pools // 2) * 2 + 1
        return DemandSeen(
            decision=DecisionId(self.id), pool=PoolId(f"pool-{number}"), chosen=bool(self.windows),
            windows=uses(at_ns, self.prompt + 400, first_request=number % 4 == 3),
            alternative_nanousd=self.rng.randrange(10**6, 10**8),
        )  # fmt: skip

    def started(self) -> AttemptStarted:
        return AttemptStarted(
            attempt=self.id, target=self.target, pool=self.pool, route="coder", index=0,
            input_tokens=self.prompt, reserve_output_tokens=4_096, price=self.price, windows=self.windows,
        )  # fmt: skip

    def failed(self) -> tuple[object, ...]:
        return (
            AttemptFailed(
                attempt=self.id, target=self.target, pool=self.pool, cause=self.rng.choice(_CAUSES),
                phase="body", rule="code:service_unavailable", status=503,
            ),
            UsageSettled(
                attempt=self.id, target=self.target, pool=self.pool, route="coder", basis="none",
                outcome="failed", cost_nanousd=0, price=self.price,
            ),
        )  # fmt: skip

    def completed(self) -> Iterator[object]:
        ttft_ns = self.rng.randrange(10**8, 2 * 10**9)
        if self.rng.random() < STREAMED:
            yield FirstTokenSeen(
                attempt=self.id, target=self.target, pool=self.pool, ttft_ns=ttft_ns, input_tokens=self.prompt
            )
        output = self.tokens.output or 0
        yield UsageSettled(
            attempt=self.id, target=self.target, pool=self.pool, route="coder", basis="reported",
            outcome="completed", tokens=self.tokens, cost_nanousd=cost_nanousd(self.tokens, self.price),
            price=self.price, windows=self.windows, duration_ns=ttft_ns + output * 10**7, ttft_ns=ttft_ns,
            input_estimate=self.prompt, model="coder-large",
        )  # fmt: skip
        if self.rng.random() < CORRECTED:
            cost = cost_nanousd(self.tokens, self.price) or 0
            yield SettlementCorrected(
                attempt=self.id, target=self.target, pool=self.pool, delta_nanousd=cost // 10,
                tokens=self.tokens, billed_nanousd=cost + cost // 10, evidence="a line on the bill",
            )  # fmt: skip


def stream(
    count: int, *, pools: int = 50, seed: int = 1, step_ns: int = 50_000_000, start_ns: int = START_NS
) -> Iterator[tuple[str, int, object]]:
    """(pool, ts, data) of `count` events; attempts start half a `step_ns` apart, on average."""
    rng = random.Random(seed)
    made = 0
    at_ns = start_ns
    while made < count:
        at_ns += rng.randrange(step_ns)
        number = rng.randrange(pools)
        price = NEW_PRICE if made > count // 2 and number % 5 == 0 else PRICE  # a cut, announced half-way
        attempt = _Attempt(rng, number, at_ns, price)
        burst: list[object] = []
        if rng.random() < DEMANDED and (attempt.windows or pools > 1):
            burst.append(attempt.demand(at_ns, pools))
        burst.append(attempt.started())
        burst += attempt.failed() if rng.random() < FAILED else attempt.completed()
        for data in burst[: count - made]:
            made += 1
            pool = data.pool  # type: ignore[attr-defined]
            yield pool, at_ns, data


def records(
    count: int,
    *,
    pools: int = 50,
    seed: int = 1,
    source: str = "gw-0@1",
    first_seq: int = 1,
    step_ns: int = 50_000_000,
    start_ns: int = START_NS,
) -> list[Outgoing]:
    """The stream as records of the signals topic, from one source."""
    found = []
    rng = random.Random(seed)
    ids = (format_uuid(rng.getrandbits(128)) for _ in range(3 * count))
    made = stream(count, pools=pools, seed=seed, step_ns=step_ns, start_ns=start_ns)
    for seq, (pool, at_ns, data) in enumerate(made, start=first_seq):
        kind, version = type_of(data)
        draft = Draft(
            id=EventId(next(ids)), type=kind, v=version, ts=at_ns, source=source, seq=seq, data=data,
            tenant="acme", request=next(ids), session=f"s{seq % 997:019d}", cause=next(ids),
        )  # fmt: skip
        key = getattr(data, "attempt", draft.id).encode()
        found.append(Outgoing(SIGNALS.name, partition_of(pool), key, codec.encode(draft)))
    return found
