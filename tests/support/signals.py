"""A seeded stream of signals, as a mix of pools, targets, windows, failures and demand; encoded records too."""

from __future__ import annotations

import random
from collections.abc import Iterator

from tidegate.events import codec
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Draft
from tidegate.events.ids import format_uuid
from tidegate.events.log.port import Outgoing
from tidegate.events.money import ListPrice, Tokens, cost_nanousd
from tidegate.events.partition import partition_of
from tidegate.events.registry import type_of
from tidegate.events.signals import AttemptFailed, AttemptStarted, DemandSeen, FirstTokenSeen, UsageSettled
from tidegate.events.topics import SIGNALS
from tidegate.events.types import AttemptId, DecisionId, EventId, PoolId, TargetId, WindowId

START_NS = 1_800_000_000_000_000_000
HOUR_NS = 3_600 * 10**9
PRICE = ListPrice(
    input_uncached=3_000_000_000, cache_read=300_000_000, cache_write_5m=3_750_000_000, output=15_000_000_000
)
NEW_PRICE = ListPrice(input_uncached=2_000_000_000, cache_read=200_000_000, output=10_000_000_000)


def uses(at_ns: int, tokens: int) -> tuple[WindowUse, ...]:
    five, week = 5 * HOUR_NS, 168 * HOUR_NS
    return (
        WindowUse(WindowId("5h"), at_ns - at_ns % five, 1, five),
        WindowUse(WindowId("week"), at_ns - at_ns % week, tokens, week),
    )


def stream(
    count: int, *, pools: int = 50, seed: int = 1, step_ns: int = 50_000_000
) -> Iterator[tuple[str, int, object]]:
    """(pool, ts, data) of `count` events."""
    rng = random.Random(seed)
    made = 0
    at_ns = START_NS
    while made < count:
        at_ns += rng.randrange(step_ns)
        number = rng.randrange(pools)
        pool, target = PoolId(f"pool-{number}"), TargetId(f"target-{number}")
        attempt = AttemptId(format_uuid(rng.getrandbits(128)))
        prompt, output = rng.randrange(100, 40_000), rng.randrange(10, 900)
        price = NEW_PRICE if made > count // 2 and number % 5 == 0 else PRICE  # a cut, announced half-way
        cached = rng.randrange(prompt)
        tokens = Tokens(input_uncached=prompt - cached, cache_read=cached, output=output)
        windows = uses(at_ns, prompt + output) if number % 2 else ()
        burst: list[object] = [
            DemandSeen(
                decision=DecisionId(attempt), pool=pool, windows=windows, alternative_nanousd=rng.randrange(10**6, 10**8)
            ),
            AttemptStarted(
                attempt=attempt, target=target, pool=pool, route="fast", index=0, input_tokens=prompt,
                reserve_output_tokens=1_000, price=price, windows=windows,
            ),
        ]  # fmt: skip
        if not windows:
            burst.pop(0)
        if rng.random() < 0.06:
            cause = rng.choice(
                ["rate_limited", "unavailable", "transport", "quota_exhausted", "invalid_request"]
            )
            burst.append(
                AttemptFailed(attempt=attempt, target=target, pool=pool, cause=cause, phase="body", rule="r")  # type: ignore[arg-type]
            )
            burst.append(
                UsageSettled(
                    attempt=attempt, target=target, pool=pool, route="fast", basis="none", outcome="failed",
                    cost_nanousd=0, price=price,
                )
            )  # fmt: skip
        else:
            ttft = rng.randrange(10**8, 2 * 10**9)
            burst.append(
                FirstTokenSeen(attempt=attempt, target=target, pool=pool, ttft_ns=ttft, input_tokens=prompt)
            )
            burst.append(
                UsageSettled(
                    attempt=attempt, target=target, pool=pool, route="fast", basis="reported", outcome="completed",
                    tokens=tokens, cost_nanousd=cost_nanousd(tokens, price), price=price, windows=windows,
                    duration_ns=ttft + output * 10**7, ttft_ns=ttft, input_estimate=prompt,
                )
            )  # fmt: skip
        for data in burst:
            if made < count:
                made += 1
                yield pool, at_ns, data


def records(
    count: int, *, pools: int = 50, seed: int = 1, source: str = "gw-0@1", first_seq: int = 1
) -> list[Outgoing]:
    """The stream as records of the signals topic, from one source."""
    found = []
    for seq, (pool, at_ns, data) in enumerate(stream(count, pools=pools, seed=seed), start=first_seq):
        kind, version = type_of(data)
        draft = Draft(
            id=EventId(f"{source}-{seq}"), type=kind, v=version, ts=at_ns, source=source, seq=seq, data=data,
            tenant="acme", request=f"r{seq}", session="s",
        )  # fmt: skip
        found.append(Outgoing(SIGNALS.name, partition_of(pool), f"k{seq}".encode(), codec.encode(draft)))
    return found
