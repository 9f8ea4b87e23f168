"""`fold`: signals into beliefs. Reads no config and no clock, and does not depend on how batches are cut. Pure."""

from collections.abc import Callable, Iterable
from typing import Any, NamedTuple

from tidegate.estimator.batch import HALF_LIFE_WINDOWS, Batch
from tidegate.estimator.columns import NS_PER_MS
from tidegate.estimator.state import CLASSES, UNLISTED, Cooldown, State, indexes
from tidegate.events import causes
from tidegate.events.decision import WindowUse
from tidegate.events.envelope import Envelope
from tidegate.events.money import ListPrice, Tokens, round_half_up
from tidegate.events.signals import (
    AttemptFailed,
    DemandSeen,
    FirstTokenSeen,
    SettlementCorrected,
    UsageSettled,
)
from tidegate.events.types import Cause

_ILLNESS: frozenset[Cause] = frozenset({"unavailable", "transport", "unknown", "auth"})
_QUOTA: frozenset[Cause] = frozenset({"rate_limited", "quota_exhausted"})
_CLOSING: frozenset[Cause] = _ILLNESS | _QUOTA
_MIN_SPEED_TOKENS = 8
_MILLION = 1_000_000


class Signal(NamedTuple):
    """One record of the signals topic, decoded."""

    partition: int
    envelope: Envelope
    data: Any


class Touched(NamedTuple):
    """Subjects whose state a fold changed, by index; `urgent` ones changed their circuit."""

    targets: set[int]
    pools: set[int]
    urgent: bool


class _Fold:
    """One call of `fold`: collects columns in record order, applies them where order demands it."""

    __slots__ = ("batch", "pools", "rates", "state", "targets", "urgent")

    def __init__(self, state: State) -> None:
        self.state = state
        self.batch = Batch()
        self.rates: dict[ListPrice, tuple[int, ...]] = {}
        self.targets: set[int] = set()
        self.pools: set[int] = set()
        self.urgent = False

    def settled(self, signal: Signal, data: UsageSettled) -> None:
        state, ts = self.state, signal.envelope.ts
        target = state.target(data.target, signal.partition)
        self.targets.add(target)
        self.count(signal, data, data.windows)
        if not data.evidence:
            return
        if data.outcome == "completed":
            self.batch.health.append((target, ts, False, False))
            self.reopen(target)
            self.measure(target, ts, data)
        if data.basis == "reported" and data.price is not None:
            self.bill(target, ts, data.tokens, data.price, None)

    def count(self, signal: Signal, data: UsageSettled | DemandSeen, uses: tuple[WindowUse, ...]) -> None:
        if not uses:
            return
        pool = self.state.pool(data.pool, signal.partition)
        for use in uses:
            if use.duration_ns <= 0:
                continue
            window = self.state.window_of(pool, use.window, use.duration_ns, first_request=use.first_request)
            overlap = use.duration_ns if use.first_request else 0
            self.batch.uses.append((window, signal.envelope.ts, use.period_start_ns, use.units, overlap))
            self.pools.add(pool)

    def measure(self, target: int, ts: int, data: UsageSettled) -> None:
        output = data.tokens.output
        if output is None or output <= 0:
            return
        self.batch.lengths.append((target, ts, output))
        if data.duration_ns is None or data.ttft_ns is None or output < _MIN_SPEED_TOKENS:
            return
        took_ns = data.duration_ns - data.ttft_ns
        if took_ns > 0:
            self.batch.speeds.append((target, ts, output, took_ns))

    def bill(self, target: int, ts: int, tokens: Tokens, price: ListPrice, billed: int | None) -> None:
        """Observe what each class cost per token. `billed` is the whole bill where it differs from the list."""
        rates = self.rates.get(price)
        if rates is None:
            rates = self.rates[price] = _rates(price)
        counts = (
            tokens.input_uncached,
            tokens.cache_read,
            tokens.cache_write_5m,
            tokens.cache_write_1h,
            tokens.output,
        )
        listed = self.state.list_price[target]
        total = 0
        if billed is not None:
            total = sum(count * rate for count, rate in zip(counts, rates, strict=True) if count and rate)
        first = target * len(CLASSES)
        for place, count in enumerate(counts):
            rate = rates[place]
            if not count or rate == UNLISTED:
                continue
            if listed[place] != rate:
                self.list_changed(target, place, ts, rate)
            if billed is None or total == 0:
                cost = (2 * count * rate + _MILLION) // (2 * _MILLION)
            else:
                cost = round_half_up(count * rate * max(billed, 0), total)
            self.batch.prices.append((first + place, ts, cost, count))

    def list_changed(self, target: int, place: int, ts: int, rate: int) -> None:
        # A price event shifts the level, so what came before it must be observed first. Rare.
        self.batch.apply_prices(self.state)
        series = indexes([target * len(CLASSES) + place])
        self.state.prices.price_event(series, indexes([ts]), indexes([rate]))
        self.state.list_price[target][place] = rate

    def failed(self, signal: Signal, data: AttemptFailed) -> None:
        state, ts = self.state, signal.envelope.ts
        target = state.target(data.target, signal.partition)
        self.targets.add(target)
        if data.cause in _ILLNESS or data.cause in _QUOTA:
            self.batch.health.append((target, ts, data.cause in _ILLNESS, data.cause in _QUOTA))
        if data.cause not in _CLOSING:
            return
        cooldown = state.target_cooldown[target]
        consequence = causes.consequence(
            data.cause,
            now_ns=ts,
            repeats=cooldown.strikes,
            retry_after_ms=data.retry_after_ms,
            reset_at_ns=data.reset_at_ns,
            confidence=data.confidence,
        )
        cooldown.strikes += 1
        if consequence.scope == "target":
            self.close(cooldown, data.cause, consequence.until_ns)
        elif consequence.scope == "pool":
            pool = state.pool(data.pool, signal.partition)
            self.pools.add(pool)
            self.close(state.pool_cooldown[pool], data.cause, consequence.until_ns)

    def close(self, cooldown: Cooldown, cause: Cause, until_ns: int | None) -> None:
        until = -1 if until_ns is None else until_ns
        if until == -1 or cooldown.until_ns is None or -1 < cooldown.until_ns < until:
            cooldown.until_ns, cooldown.cause = until, cause
            self.urgent = True

    def reopen(self, target: int) -> None:
        cooldown = self.state.target_cooldown[target]
        if cooldown.strikes or cooldown.until_ns is not None:
            self.urgent = self.urgent or cooldown.until_ns is not None
            cooldown.strikes, cooldown.until_ns, cooldown.cause = 0, None, None

    def first_token(self, signal: Signal, data: FirstTokenSeen) -> None:
        target = self.state.target(data.target, signal.partition)
        self.targets.add(target)
        if data.ttft_ns > 0:
            self.batch.ttfts.append((target, signal.envelope.ts, data.ttft_ns, data.input_tokens))

    def corrected(self, signal: Signal, data: SettlementCorrected) -> None:
        target = self.state.target(data.target, signal.partition)
        self.targets.add(target)
        listed = self.state.list_price[target]
        if data.billed_nanousd is None or UNLISTED in (listed[0], listed[-1]):
            return
        known = {name: rate for name, rate in zip(CLASSES, listed, strict=True) if rate != UNLISTED}
        self.bill(target, signal.envelope.ts, data.tokens, ListPrice(**known), data.billed_nanousd)

    def demanded(self, signal: Signal, data: DemandSeen) -> None:
        pool = self.state.pool(data.pool, signal.partition)
        uses = sorted((use for use in data.windows if use.duration_ns > 0), key=lambda use: -use.duration_ns)
        longer_units = 0
        for use in uses:
            window = self.state.window_of(pool, use.window, use.duration_ns, first_request=use.first_request)
            self.pools.add(pool)
            ts = signal.envelope.ts
            self.batch.demands.append((window, ts, use.units))
            if data.alternative_nanousd is not None:
                half_life_ms = HALF_LIFE_WINDOWS * use.duration_ns // NS_PER_MS
                self.batch.sketches.append(
                    (window, ts, data.alternative_nanousd, use.units, longer_units, max(1, half_life_ms))
                )
            longer_units = use.units


def _rates(price: ListPrice) -> tuple[int, ...]:
    """The list price of each class, missing cache classes filled; UNLISTED where none is known."""
    full = price.filled() if price.is_complete() else price
    listed = (getattr(full, name) for name in CLASSES)
    return tuple(UNLISTED if rate is None else rate for rate in listed)


_HANDLERS: dict[type[Any], Callable[[_Fold, Signal, Any], None]] = {
    UsageSettled: _Fold.settled,
    AttemptFailed: _Fold.failed,
    FirstTokenSeen: _Fold.first_token,
    SettlementCorrected: _Fold.corrected,
    DemandSeen: _Fold.demanded,
}


FOLDED = frozenset(kind.__name__ for kind in _HANDLERS)
"""Types of the signals topic that change a belief; the others need not be decoded."""


def fold(state: State, signals: Iterable[Signal]) -> Touched:
    """Change `state` by the signals, in order per partition; returns what changed.

    Duplicates must have been dropped before. Two calls give the same state, bit for bit, as one call with
    both parts.
    """
    run = _Fold(state)
    for signal in signals:
        handler = _HANDLERS.get(type(signal.data))
        if handler is not None:
            handler(run, signal, signal.data)
    run.batch.apply(state)
    return Touched(run.targets, run.pools, run.urgent)
