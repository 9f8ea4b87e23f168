"""Bugs seeded into the gateway's arithmetic, one at a time: each makes the ledger differ from the invoice."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import msgspec
import pytest

from support.rig import KEY, Rig, provider, running_rig
from tidegate.events import money
from tidegate.events.money import MILLION, ListPrice, Tokens, round_half_up
from tidegate.gateway import settlements, usage
from tidegate.gateway.usage import UsageTally

pytestmark = pytest.mark.slow
# No price is a whole number of nano-dollars per token: what is rounded otherwise comes out otherwise.
PRICES = {
    "input_uncached": 3_000_377_701,
    "cache_read": 300_451_903,
    "cache_write_5m": 3_750_291_007,
    "cache_write_1h": 6_000_613_009,
    "output": 15_000_733_003,
}
LONG = "All the tides of the seven seas. " * 24


CLASSES = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output", "reasoning")
"""What the simulator bills, and the part of output that it tells apart."""


class Mutant:
    """Wraps what it replaces; counts how often it ran, and how often its answer was another one."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self._monkeypatch = monkeypatch
        self.runs = 0
        self.changes = 0

    def replace(self, holder: object, name: str, mutated: Callable[..., Any]) -> None:
        """`mutated(original answer, *arguments)` is what `holder.name` answers from now on."""
        original = getattr(holder, name)

        def wrapped(*arguments: Any) -> Any:
            right = original(*arguments)
            wrong = mutated(right, *arguments)
            self.runs += 1
            self.changes += wrong != right
            return wrong

        self._monkeypatch.setattr(holder, name, wrapped)

    def tokens(self, change: Callable[[Tokens], Tokens]) -> None:
        """Change the classes of every answer, of both dialects."""
        for name in ("_from_openai", "_from_anthropic"):
            self.replace(usage, name, lambda right, *_fields: change(right))

    def observed(self, merge: Callable[[int, int], int]) -> None:
        """What becomes of an output count that comes again; the right one is the newest."""
        original, mutant = UsageTally.observe, self

        def observe(tally: UsageTally, found: Any, service_tier: Any = None) -> None:
            before = tally._fields.get("output_tokens")
            original(tally, found, service_tier)
            now = tally._fields.get("output_tokens")
            mutant.runs += 1
            if (
                before is not None
                and now is not None
                and isinstance(found, dict)
                and "output_tokens" in found
            ):
                tally._fields["output_tokens"] = merge(before, now)
                mutant.changes += merge(before, now) != now

        self._monkeypatch.setattr(UsageTally, "observe", observe)


def plus(*counts: int | None) -> int:
    return sum(count or 0 for count in counts)


def cached_counted_twice(mutant: Mutant) -> None:
    mutant.replace(
        usage,
        "_from_openai",
        lambda right, *_: msgspec.structs.replace(
            right, input_uncached=plus(right.input_uncached, right.cache_read)
        ),
    )


def without(token_class: str) -> Callable[[Mutant], None]:
    return lambda mutant: mutant.tokens(lambda right: msgspec.structs.replace(right, **{token_class: None}))


def long_writes_as_short_ones(mutant: Mutant) -> None:
    mutant.tokens(
        lambda right: msgspec.structs.replace(
            right, cache_write_5m=plus(right.cache_write_5m, right.cache_write_1h), cache_write_1h=None
        )
    )


def reasoning_on_top(mutant: Mutant) -> None:
    mutant.tokens(lambda right: msgspec.structs.replace(right, output=plus(right.output, right.reasoning)))


def floor(mutant: Mutant) -> None:
    mutant.replace(money, "round_half_up", lambda _right, numerator, denominator: numerator // denominator)


def each_class_rounded(mutant: Mutant) -> None:
    def cost(right: int | None, tokens: Tokens, price: ListPrice) -> int | None:
        if right is None:
            return None
        full = price.filled()
        classes = CLASSES[:-1]  # reasoning is in the output
        return sum(
            round_half_up((getattr(tokens, name) or 0) * (getattr(full, name) or 0), MILLION)
            for name in classes
        )

    mutant.replace(settlements, "cost_nanousd", cost)


MUTANTS: dict[str, Callable[[Mutant], None]] = {
    "input_uncached includes the cached part": cached_counted_twice,
    "input_uncached is dropped": lambda mutant: mutant.tokens(
        lambda right: msgspec.structs.replace(right, input_uncached=0)
    ),
    "cache_read is dropped": without("cache_read"),
    "cache_write_5m is dropped": without("cache_write_5m"),
    "cache_write_1h is dropped": without("cache_write_1h"),
    "cache_write_1h counts as 5m": long_writes_as_short_ones,
    "output is the first count": lambda mutant: mutant.observed(lambda before, _: before),
    "output counts are added": lambda mutant: mutant.observed(lambda before, now: before + now),
    "reasoning is added to output": reasoning_on_top,
    "money is rounded down": floor,
    "money is rounded per class": each_class_rounded,
}


async def drive(rig: Rig) -> None:
    """Whole and streamed, cached and not, short- and long-lived writes, thinking, in both dialects."""
    async with httpx.AsyncClient(base_url=rig.url, timeout=30, trust_env=False) as client:
        for path, body in bodies():
            answer = await client.post(path, json=body, headers={"authorization": f"Bearer {KEY}"})
            assert answer.status_code == 200, answer.text
    await rig.wait_event("RequestFinished", len(bodies()))


def bodies() -> list[tuple[str, dict[str, Any]]]:
    found: list[tuple[str, dict[str, Any]]] = []
    for turn in range(3):
        for stream in (False, True):
            question = {"role": "user", "content": f"{LONG} And what of tide {turn}?" + "?" * (turn + stream)}
            chat = {"model": "chat", "stream": stream, "messages": [question]}
            found.append(("/v1/chat/completions", chat))
            # The instructions live for an hour, what is asked for five minutes.
            text = {
                "type": "text",
                "text": f"Of kind {stream}: {LONG}",
                "cache_control": {"type": "ephemeral", "ttl": "1h"},
            }
            asked = {"type": "text", "text": question["content"] * 2, "cache_control": {"type": "ephemeral"}}
            found.append(
                (
                    "/v1/messages",
                    {
                        "model": "messages",
                        "max_tokens": 64,
                        "stream": stream,
                        "system": [text],
                        "messages": [{"role": "user", "content": [asked, {"type": "text", "text": "Why?"}]}],
                    },
                )
            )
    return found


async def sums(folder: Path) -> tuple[int, int, list[Tokens]]:
    """Ledger, invoice, and the tokens as settled."""
    model = {"name": "m", "reasoning_tokens": 5, **PRICES}
    async with running_rig(folder, [provider("one", models=[model])], prices=PRICES) as rig:
        await drive(rig)
        settled = rig.data("UsageSettled")
        assert {data.basis for data in settled} == {"reported"}
        (bill,) = rig.simulator.invoices().values()
        assert {data.attempt for data in settled} == {line["attempt"] for line in bill["lines"]}
        return rig.ledger(), rig.invoice(), [data.tokens for data in settled]


async def test_without_a_bug_the_ledger_is_the_invoice_and_every_class_is_in_use(tmp_path: Path) -> None:
    ledger, invoice, tokens = await sums(tmp_path)
    assert ledger == invoice > 0
    for name in CLASSES:
        assert sum(getattr(each, name) or 0 for each in tokens) > 0, name


@pytest.mark.parametrize("name", MUTANTS)
async def test_a_seeded_bug_makes_the_ledger_differ(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    mutant = Mutant(monkeypatch)
    MUTANTS[name](mutant)
    ledger, invoice, _ = await sums(tmp_path)
    assert mutant.runs > 0, "the mutated code did not run"
    assert mutant.changes > 0, "the mutated code changed nothing"
    assert ledger != invoice
