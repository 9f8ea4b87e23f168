"""`fold`: signals into beliefs. Reads no config and no clock, and does not depend on how batches are cut. Pure."""

from collections.abc import Callable, Iterable
from operator import attrgetter
from typing import Any, NamedTuple

from tidegate.estimator import cache, model_time, output_length
from tidegate.estimator.batch import CORRECTION, DEMAND_BYTES, ROLLING, Batch, four, six, two
from tidegate.estimator.series_fields import BINS_PER_WINDOW
from tidegate.estimator.state import CLASSES, State, indexes
from tidegate.estimator.told import Report
from tidegate.events import causes
from tidegate.events.cooldown import Cooldown, is_proof, strike
from tidegate.events.decision import NO_PEAK, WindowUse
from tidegate.events.envelope import Envelope
from tidegate.events.money import ListPrice, Tokens, cost_nanousd
from tidegate.events.signals import (
    AttemptFailed,
    DemandSeen,
    FirstTokenSeen,
    QuotaObserved,
    SettlementCorrected,
    UsageSettled,
)
from tidegate.events.types import Cause, TargetId

_QUOTA: frozenset[Cause] = frozenset({"rate_limited", "quota_exhausted"})
_MIN_SPEED_TOKENS = 8
_duration_ns = attrgetter("duration_ns")

Handler = Callable[[Any, int, int], None]


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


class Folding:
    """One call of `fold`: `take` signals in record order, then `finish`: the models apply where order demands it.

    Used once; between the first `take` and `finish` nobody else may read or change the state.
    """

    __slots__ = ("batch", "handlers", "pools", "state", "targets", "urgent")

    def __init__(self, state: State) -> None:
        self.state = state
        self.batch = Batch()
        self.targets: set[int] = set()
        self.pools: set[int] = set()
        self.urgent = False
        self.handlers: dict[type[Any], Handler] = {
            UsageSettled: self._settled,
            AttemptFailed: self._failed,
            FirstTokenSeen: self._first_token,
            SettlementCorrected: self._corrected,
            DemandSeen: self._demanded,
            QuotaObserved: self._quota_told,
        }
        """What takes a signal (data, ts, partition), by the type of its data; others change no belief."""

    def finish(self) -> Touched:
        """Let the models observe what was taken; returns what changed."""
        self.batch.apply(self.state)
        return Touched(self.targets, self.pools, self.urgent)

    def _settled(self, data: UsageSettled, ts: int, partition: int) -> None:
        # More than half of what taking signals costs is here: what is read twice has a name.
        target = self._target(data.target, partition)
        if data.windows:
            self._count(data, ts, partition)
        if not data.evidence:
            return
        state, tokens = self.state, data.tokens
        if data.outcome == "completed":
            cooldown = state.target_cooldown[target]
            if cooldown.strikes or cooldown.until_ns is not None:
                self._succeeded(target, data, ts)
            output = tokens.output or 0
            took_ns = 0
            if output >= _MIN_SPEED_TOKENS:
                duration_ns, ttft_ns = data.duration_ns, data.ttft_ns
                if duration_ns is not None and ttft_ns is not None and duration_ns > ttft_ns:
                    took_ns = duration_ns - ttft_ns
            if output > 0:
                output_length.observe(state.lengths[target], data.route, output)
            else:
                output = 0
            self.batch.outcomes += six(target, ts, 0, 0, output, took_ns)
        if data.basis == "reported":
            read, uncached = tokens.cache_read, tokens.input_uncached
            if read is not None and uncached is not None:
                self._cached(target, data, tokens, read, uncached)
            if data.price is not None:
                state.list_price[target] = data.price

    def _cached(self, target: int, data: UsageSettled, tokens: Tokens, read: int, uncached: int) -> None:
        """Observe what the provider's cache kept, where it reports that."""
        prompt = uncached + read + (tokens.cache_write_5m or 0) + (tokens.cache_write_1h or 0)
        if prompt <= 0:
            return
        numbers = self.state.cache[target]
        cache.observe_share(numbers, read, prompt)
        prefix = data.prefix_tokens
        if prefix and data.prefix_age_ns is not None:
            cache.observe_prefix(numbers, read, min(prefix, prompt), data.prefix_age_ns)

    def _target(self, name: TargetId, partition: int) -> int:
        target = self.state.targets.get(name)
        if target is None:
            target = self.state.target(name, partition)
        self.targets.add(target)
        return target

    def _window(self, pool: int, use: WindowUse) -> int:
        series = self.state.windows.get((pool, use.window))
        if series is not None:
            return series
        return self.state.window_of(pool, use.window, use.duration_ns, first_request=use.first_request)

    def _count(self, data: UsageSettled, ts: int, partition: int) -> None:
        state = self.state
        pool = state.pools.get(data.pool)
        if pool is None:
            pool = state.pool(data.pool, partition)
        if state.pool_shut[pool] is not None:
            self._skip_shut(pool, ts)
        self._book(pool, data.windows, ts)

    def _book(self, pool: int, windows: tuple[WindowUse, ...], ts: int, correction: int = 0) -> None:
        """Count units in their periods; CORRECTION: they only mend what was counted."""
        known = self.state.windows
        for use in windows:
            duration_ns = use.duration_ns
            if duration_ns <= 0:
                continue
            start_ns = use.period_start_ns
            if start_ns > ts:
                start_ns = model_time.period_start_ns(use, ts)
            series = known.get((pool, use.window))
            if series is None:
                series = self._window(pool, use)
            overlap_ns = duration_ns if use.first_request else 0
            units = use.units
            if use.rolling:
                # Its provider counts it from when it was answered at the latest.
                overlap_ns, start_ns = ROLLING, start_ns if correction else ts
            if use.peak is NO_PEAK:
                self.batch.uses += six(series, ts, start_ns, units, overlap_ns, correction or units)
            else:
                self.batch.uses += six(series, ts, start_ns, units, overlap_ns, correction or _plain(use))
            self.pools.add(pool)

    def _failed(self, data: AttemptFailed, ts: int, partition: int) -> None:
        state = self.state
        target = self._target(data.target, partition)
        if not (data.evidence and causes.says_of_target(data.cause, data.status)):
            return
        quota = int(data.cause in _QUOTA)
        self.batch.outcomes += six(target, ts, 1 - quota, quota, 0, 0)
        cooldown = state.target_cooldown[target]
        until_ns = cooldown.until_ns
        consequence = strike(cooldown, data, ts)
        self.urgent = self.urgent or cooldown.until_ns != until_ns
        if consequence.scope == "pool" and consequence.until_ns is not None:  # quota is gone, and comes again
            pool = state.pool(data.pool, partition)
            self.pools.add(pool)
            changed = state.pool_cooldown[pool].close(data.cause, consequence.until_ns, ts)
            self.urgent = self.urgent or changed
            self._shut(pool, ts, consequence.until_ns)

    def _succeeded(self, target: int, data: UsageSettled, ts: int) -> None:
        """A request was answered by a target of which failures are held."""
        cooldown = self.state.target_cooldown[target]
        if is_proof(cooldown, None if data.duration_ns is None else ts - data.duration_ns, ts):
            self.urgent = self.urgent or cooldown.until_ns is not None
            self.state.target_cooldown[target] = Cooldown()

    def _first_token(self, data: FirstTokenSeen, ts: int, partition: int) -> None:
        target = self._target(data.target, partition)
        if data.ttft_ns > 0:
            self.batch.ttfts += four(target, ts, data.ttft_ns, data.input_tokens)

    def _corrected(self, data: SettlementCorrected, ts: int, partition: int) -> None:
        """Observe what was billed against what was listed: of one bill the factor is the same for all its classes."""
        target = self._target(data.target, partition)
        if data.windows:
            self._book(self.state.pool(data.pool, partition), data.windows, ts, CORRECTION)
        price = data.price or self.state.list_price[target]
        listed = None if price is None else cost_nanousd(data.tokens, price)
        if data.billed_nanousd is None or price is None or not listed:
            return
        billed, series = max(data.billed_nanousd, 0), target * len(CLASSES)
        for count, rate in zip(_counts(data.tokens), _rates(price), strict=True):
            if count and rate:
                self.batch.prices += six(series, ts, billed, listed, count, rate)
            series += 1

    def _shut(self, pool: int, ts: int, until_ns: int) -> None:
        """No quota is left: until then nothing can be used, which says nothing of what would have been."""
        known = self.state.pool_shut[pool]
        self.state.pool_shut[pool] = (ts, until_ns) if known is None else (known[0], max(known[1], until_ns))
        self.pools.add(pool)

    def _skip_shut(self, pool: int, ts: int, *, reopened: bool = False) -> None:
        """Consumption of a pool that is shut, up to `ts`: missing, not idle. What came before is observed first.

        Less than a bin is no gap: near the end of a quota small requests are served and large ones refused.
        """
        state, series = self.state, self.state.pool_windows[pool]
        since_ns, until_ns = state.pool_shut[pool] or (ts, ts)
        if series and ts - since_ns >= min(state.window[w].duration_ns for w in series) // BINS_PER_WINDOW:
            if self.batch.holds_uses_of(series):
                self.batch.apply_uses(state)
            state.use.censor(indexes(series), indexes([min(ts, until_ns)] * len(series)))
            since_ns = ts
        state.pool_shut[pool] = None if reopened or ts >= until_ns else (since_ns, until_ns)
        self.pools.add(pool)

    def _demanded(self, data: DemandSeen, ts: int, partition: int) -> None:
        pool = self.state.pool(data.pool, partition)
        if data.refused_until_ns is not None:
            if data.refused_until_ns > ts:
                self._shut(pool, ts, data.refused_until_ns)
        elif self.state.pool_shut[pool] is not None:
            self._skip_shut(pool, ts, reopened=True)
        alternative = data.alternative_nanousd or 0
        longer_units = 0
        known = self.state.windows
        for use in sorted(data.windows, key=_duration_ns, reverse=True):
            duration_ns = use.duration_ns
            if duration_ns <= 0:
                break
            series, units = known.get((pool, use.window)), use.units
            if series is None:
                series = self._window(pool, use)
            self.pools.add(pool)
            if use.peak is not NO_PEAK:
                self.batch.peaked += two(len(self.batch.demands) // DEMAND_BYTES, _plain(use))
            self.batch.demands += six(series, ts, units, alternative, longer_units, duration_ns)
            longer_units = units

    def _quota_told(self, data: QuotaObserved, ts: int, partition: int) -> None:
        """What a provider says of a window of the pool. Rare: a gateway asks at most once a second per target."""
        use, limit, remaining = data.window, data.limit, data.remaining
        if use is None or use.duration_ns <= 0 or limit is None or limit <= 0 or remaining is None:
            return
        state, pool = self.state, self.state.pool(data.pool, partition)
        report = Report(
            series=self._window(pool, use),
            ts_ns=ts,
            start_ns=model_time.period_start_ns(use, ts),
            duration_ns=use.duration_ns,
            first_request=use.first_request,
            limit=limit,
            remaining=remaining,
            counted=use.units,
            guess=data.guess,
        )
        self.pools.add(pool)
        if not state.told.is_due(report):
            state.told.hear(report)
            return
        self.batch.apply_uses(state)  # the report is of all that was used until now
        state.told.observe(state.ledger, report)


def _plain(use: WindowUse) -> int:
    """Units without the weight of the hour, at least one where there were any."""
    return max(int(use.units / use.peak + 0.5), 1) if use.units > 0 and use.peak > 0 else 0


def _rates(price: ListPrice) -> tuple[int | None, ...]:
    """The list price of each class of a complete price, missing cache classes filled."""
    full = price.filled()
    return tuple(getattr(full, name) for name in CLASSES)


def _counts(tokens: Tokens) -> tuple[int | None, ...]:
    """In the order of CLASSES."""
    return (
        tokens.input_uncached,
        tokens.cache_read,
        tokens.cache_write_5m,
        tokens.cache_write_1h,
        tokens.output,
    )


FOLDED = (UsageSettled, AttemptFailed, FirstTokenSeen, SettlementCorrected, DemandSeen, QuotaObserved)
"""Events of the signals topic that change a belief; the data of others need not be decoded."""


def fold(state: State, signals: Iterable[Signal]) -> Touched:
    """Change `state` by the signals, in order per partition; returns what changed.

    Duplicates must have been dropped before. Two calls give the same state, bit for bit, as one call with
    both parts.
    """
    run = Folding(state)
    for signal in signals:
        handler = run.handlers.get(type(signal.data))
        if handler is not None:
            handler(signal.data, signal.envelope.ts, signal.partition)
    return run.finish()
