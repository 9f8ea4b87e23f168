"""Prices that depend on how long a prompt is, how a request was served, and when it came: the ledger follows the
provider's bill through all of them."""

from __future__ import annotations

import asyncio
import datetime as dt
import json
import shutil
from collections.abc import Iterable
from itertools import product
from pathlib import Path
from typing import Any

import pytest

from support.dialect_rig import CHATS, billed
from support.report_rig import PAIRS, LeapingClock, ask, lines, report_rig, unpriced, with_bills
from support.report_traces import leave
from support.rig import PATIENCE_S, PRICES, Rig, events_in
from tidegate.analytics import reprice
from tidegate.analytics.ledger import Ledger
from tidegate.analytics.reconcile import plan
from tidegate.events.journal.orphans import settle_orphans
from tidegate.events.journal.store import JournalStore
from tidegate.events.money import Tokens, cost_nanousd
from tidegate.events.signals import UsageSettled
from tidegate.runtime.billing import Bills
from tidegate.simulator.server import RunningSimulator

MARK = 400
"""Input tokens above which a prompt is long."""
QUESTION = "How high is the tide at the pier? "
OFFERED = ["flex", "priority", "batch", "fast"]


def times(numerator: int, denominator: int = 1) -> dict[str, int]:
    """All prices, so many times as high."""
    return {name: price * numerator // denominator for name, price in PRICES.items()}


VARIANTS: list[dict[str, Any]] = [
    {"above_input_tokens": MARK, **times(2)},
    {"service_tier": "flex", **times(1, 2)},
    {"service_tier": "priority", **times(3)},
    {"service_tier": "priority", "above_input_tokens": MARK, **times(5)},
    {"service_tier": "batch", **times(1, 2)},
    {"service_tier": "fast", **times(6)},
]
"""As the provider bills; no tier but one has a price of its own for long prompts."""


def written(table: str, entries: Iterable[dict[str, Any]]) -> str:
    """TOML of what an operator writes: dollars per million tokens."""
    text = ""
    for entry in entries:
        text += f"[[{table}]]\n"
        for name, value in entry.items():
            if name in PRICES:
                text += f'{name} = "{value / 1e9:g}"\n'
            else:
                text += f"{name} = {value if isinstance(value, dt.datetime) else json.dumps(value)}\n"
    return text


async def is_long(
    rig: Rig, simulator: RunningSimulator, client: str, upstream: str, **asked: Any
) -> list[bool]:
    """Asks with a prompt at the mark and one above it: on which side each was. Streamed and not."""
    seen: list[bool] = []
    words = QUESTION * 20 + f"{client} {upstream} {asked}"
    await ask(rig, client, upstream, words, **asked)
    base = lines(simulator)[-1].tokens.prompt
    for length, stream in ((MARK, True), (MARK + 1, False)):
        await ask(rig, client, upstream, words + "x" * (4 * (length - base)), stream=stream, **asked)
        assert lines(simulator)[-1].tokens.prompt == length, (client, upstream)
        seen.append(length > MARK)
    return seen


async def check_bill(rig: Rig, simulator: RunningSimulator) -> None:
    """Attempt by attempt the ledger says what the provider bills, from its answers alone."""
    await rig.wait_event("RequestFinished", len(lines(simulator)))
    ends = rig.data("UsageSettled")
    assert {end.basis for end in ends} == {"reported"}
    assert {end.attempt: end.cost_nanousd for end in ends} == {
        line.attempt: line.cost_nanousd for line in lines(simulator)
    }
    assert {end.attempt: end.tokens.service_tier for end in ends} == {
        line.attempt: line.service_tier for line in lines(simulator)
    }
    assert rig.ledger() == billed(simulator) > 0
    assert (await with_bills(rig)).is_balanced
    later = reprice.plan(unpriced(rig), rig.machine.settings.routing())
    assert (later.before.nanousd, later.after.nanousd) == (0, billed(simulator)), (
        "priced later, it is the same"
    )


def check_plans(rig: Rig) -> None:
    """Each plan was made at the tier that the provider was then asked for, and its cash is that tier's price."""
    plans = {envelope.request: data for envelope, data in rig.events("DecisionMade")}
    for envelope, start in rig.events("AttemptStarted"):
        decision = plans[envelope.request]
        (chosen,) = decision.candidates
        assert dict(decision.ask.service_tiers).get(start.target) == start.service_tier
        tokens = Tokens(
            decision.ask.input_tokens, output=chosen.expected_output_tokens, service_tier=start.service_tier
        )
        assert chosen.expected_cached_tokens or chosen.price.cash == cost_nanousd(tokens, start.price)


async def test_a_tier_that_is_asked_for_is_charged_as_it_is_billed_on_both_sides_of_a_mark(
    tmp_path: Path,
) -> None:
    """What is asked for and not offered is served, and billed, the standard way."""
    model = {"tariffs": VARIANTS, "tiers": OFFERED}
    more = written("targets.prices.variants", VARIANTS)
    async with report_rig(tmp_path, model=model, more_prices=more) as (rig, simulator):
        for dialect in CHATS:
            ways = [{"service_tier": tier} for tier in ("auto", "flex", "priority", "scale")]
            if dialect == "anthropic":
                ways = [{"service_tier": "standard_only"}, {"speed": "fast"}]
            for way in ways:
                assert await is_long(rig, simulator, dialect, dialect, extra_body=way) == [False, True]
        await check_bill(rig, simulator)
        check_plans(rig)
        served = {(line.dialect, line.service_tier) for line in lines(simulator)}
        assert served == {
            *product(("openai", "responses"), (None, "flex", "priority")),
            *product(("anthropic",), (None, "fast")),
        }


@pytest.mark.parametrize("usual", ["priority", "batch"])
async def test_a_tier_that_only_the_provider_chose_is_charged_in_every_pair_of_dialects(
    tmp_path: Path, usual: str
) -> None:
    model = {"tariffs": VARIANTS, "tiers": OFFERED, "usual_tier": usual}
    more = written("targets.prices.variants", VARIANTS)
    async with report_rig(tmp_path, model=model, more_prices=more) as (rig, simulator):
        for pair in PAIRS:
            assert await is_long(rig, simulator, *pair) == [False, True]
        await check_bill(rig, simulator)
        assert {line.service_tier for line in lines(simulator)} == {usual}


TOLD: dict[str, dict[str | None, str | None]] = {
    "openai": {None: "default", "flex": "flex", "priority": "priority", "fast": "priority"},
    "openai-responses": {None: "default", "flex": "flex", "priority": "priority", "fast": "priority"},
    "anthropic": {None: "standard", "priority": "priority", "batch": "batch", "fast": "standard"},
}
"""By the client's dialect, how it is told of a tier; what it has no word for is not told."""


@pytest.mark.parametrize("usual", [None, *OFFERED])
async def test_a_client_is_told_the_tier_in_its_own_words_whoever_answers(
    tmp_path: Path, usual: str | None
) -> None:
    async with report_rig(tmp_path, model={"tiers": OFFERED, "usual_tier": usual}) as (rig, simulator):
        told: dict[Any, str | None] = {}
        for (client, upstream), stream in product(PAIRS, (True, False)):
            heard, _ = await ask(rig, client, upstream, QUESTION, stream=stream)
            if client != upstream:
                told[client, upstream, stream] = heard.tier
        # Responses name their tier at the end of a stream, where the SDKs of others do not look for it.
        unseen = {(client, "openai-responses", True) for client in CHATS}
        assert told == {place: None if place in unseen else TOLD[place[0]].get(usual) for place in told}
        assert {line.service_tier for line in lines(simulator)} == {usual}


@pytest.mark.parametrize("asked", ["priority", "flex"])
async def test_whoever_leaves_is_charged_as_the_tier_that_was_asked_for_and_exactly_that_with_the_bill(
    tmp_path: Path, asked: str
) -> None:
    """Before anything came, within the answer, and from an answer without a stream."""
    model = {"tariffs": VARIANTS, "tiers": OFFERED}
    more = written("targets.prices.variants", VARIANTS)
    slow = {"ttft_ms": 300, "tokens_per_s": 40}
    own = {"target": 'when_abandoned = "cancel"\n', "latency": slow}
    async with report_rig(tmp_path, model=model, more_prices=more, **own) as (rig, simulator):
        ways = list(product(PAIRS, ((True, 0), (True, 2), (False, 1))))
        left = [
            asyncio.ensure_future(
                leave(rig, *pair, events, stream=stream, words=QUESTION, **fields_of(pair[0], asked))
            )
            for pair, (stream, events) in ways
        ]
        await rig.wait_event("AttemptStarted", len(ways))
        async with asyncio.timeout(PATIENCE_S):
            while len(lines(simulator)) < len(ways):
                await asyncio.sleep(0.005)
        for task, (_, (stream, _)) in zip(left, ways, strict=True):
            if not stream:
                task.cancel()
        await asyncio.gather(*left, return_exceptions=True)
        await rig.wait_event("RequestFinished", len(ways))
        async with asyncio.timeout(PATIENCE_S):
            while any(line.outcome is None for line in lines(simulator)):
                await asyncio.sleep(0.005)
        served = {line.attempt: line.service_tier for line in lines(simulator)}
        started = {start.attempt: start.service_tier for start in rig.data("AttemptStarted")}
        assert started == served, "what the provider was asked is known before it answers"
        check_plans(rig)
        assert set(served.values()) == {None, asked}
        for end in rig.data("UsageSettled"):
            share = {None: 1, "priority": 3, "flex": 0.5}[served[end.attempt]]
            assert end.basis == "estimated"
            assert end.price.output == share * PRICES["output"]
        found = await with_bills(rig)
        assert found.is_balanced
        assert found.after.nanousd == billed(simulator) > 0


async def test_what_a_killed_worker_left_open_is_charged_as_the_tier_it_asked_for_until_the_bill_comes(
    tmp_path: Path,
) -> None:
    """The journal as a kill would leave it, while each client's request is under way."""
    model = {"tariffs": VARIANTS, "tiers": OFFERED}
    more = written("targets.prices.variants", VARIANTS)
    slow = {"ttft_ms": 60_000, "tokens_per_s": 40}
    async with report_rig(tmp_path, model=model, more_prices=more, latency=slow) as (rig, simulator):
        asking = [
            asyncio.ensure_future(leave(rig, *pair, 1, words=QUESTION, **fields_of(pair[0], "priority")))
            for pair in PAIRS
        ]
        starts = await rig.wait_event("AttemptStarted", len(PAIRS))
        async with asyncio.timeout(PATIENCE_S):
            while len(lines(simulator)) < len(PAIRS):
                await asyncio.sleep(0.005)
        shutil.copytree(rig.machine.data_dir / "journals" / "gw-0", tmp_path / "left")
        for task in asking:
            task.cancel()
        await rig.wait_event("RequestFinished", len(PAIRS))
        store = JournalStore.open(tmp_path / "left")
        assert settle_orphans(store, rig.machine.clock, lambda: "heir") == len(PAIRS)
        store.close()
        ledger, ends = Ledger(), []
        for envelope, data in events_in(tmp_path / "left"):
            ledger.fold(envelope, data)
            ends += [data] if isinstance(data, UsageSettled) else []
        asked = {start.attempt: start.service_tier for start in starts}
        assert {(asked[end.attempt], end.price.output) for end in ends if end.price is not None} == {
            (None, PRICES["output"]),
            ("priority", 3 * PRICES["output"]),
        }
        async with asyncio.timeout(PATIENCE_S):
            while any(line.outcome is None for line in lines(simulator)):
                await asyncio.sleep(0.005)
        bills = await Bills(rig.machine.settings.targets, rig.machine.clock).fetch()
        found = plan(ledger, bills, routing=rig.machine.settings.routing())
        assert found.is_balanced
        assert found.before.nanousd > found.after.nanousd == billed(simulator) > 0


def fields_of(client: str, tier: str) -> dict[str, Any]:
    """What asks for a tier; Anthropic's clients cannot ask for one of these."""
    return {} if client == "anthropic" else {"service_tier": tier}


async def test_a_price_that_changes_holds_for_what_begins_after_it_not_for_what_was_begun(
    tmp_path: Path,
) -> None:
    clock = LeapingClock()
    change_s = int(clock.now_s()) + 1800
    model = {"tariffs": [{"from_s": change_s, **times(7, 4)}]}
    day = dt.datetime.fromtimestamp(change_s, dt.UTC)
    more = written("targets.prices", [{"from": day, **times(7, 4)}])
    slow = {"ttft_ms": 1, "tokens_per_s": 100}
    async with report_rig(tmp_path, model=model, more_prices=more, latency=slow, clock=clock) as (
        rig,
        simulator,
    ):
        long = {"x-sim-output-tokens": "60"}
        begun = [asyncio.ensure_future(ask(rig, *pair, QUESTION, headers=long)) for pair in PAIRS]
        await rig.wait_event("FirstTokenSeen", len(PAIRS))
        clock.leap_s(3600)
        await asyncio.gather(*begun)
        for pair in PAIRS:
            await ask(rig, *pair, QUESTION, headers={"x-sim-output-tokens": "9"})
        await check_bill(rig, simulator)
        came_before = [line.arrived_s < change_s for line in lines(simulator)]
        assert came_before == [True] * len(PAIRS) + [False] * len(PAIRS)
        assert all((line.settled_s or 0) > change_s for line in lines(simulator))
        told = {end.attempt: end.price.output for end in rig.data("UsageSettled")}
        assert [told[line.attempt] for line in lines(simulator)] == [
            PRICES["output"] if before else times(7, 4)["output"] for before in came_before
        ]
