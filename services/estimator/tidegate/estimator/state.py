"""What the estimator holds: subjects by name, one table per model, and the rows that survive a restart.

A row is folded from exactly one partition. `fold` changes the state, `publish` only reads it.
"""

from collections.abc import Iterable

import msgspec
import numpy as np

from tidegate.estimator import cache, output_length
from tidegate.estimator.columns import IntArray
from tidegate.estimator.consumption import Consumption
from tidegate.estimator.health import Health
from tidegate.estimator.price_filter import PriceFilter
from tidegate.estimator.rate_filter import RateFilter
from tidegate.estimator.rolling import Rolling
from tidegate.estimator.shadow_price import ValueSketch
from tidegate.estimator.told import Told, ToldRow
from tidegate.estimator.windows import WindowLedger
from tidegate.events.cooldown import Cooldown
from tidegate.events.money import ListPrice
from tidegate.events.snapshots import pool_subject, target_subject
from tidegate.events.types import PoolId, TargetId, WindowId

FOLD_VERSION = 10
"""2: time in which a pool had no quota left is missing from the consumption of its windows, not idle.
3: providers tell of windows: the capacity of those of which they tell shares, and the use of others.
4: failures of one moment are one strike, five close a target, and what began before a closing does not open it.
5: what rolling windows count is held by slices of time.
6: a capacity of which shares are told is held by a bank of filters, one of them without strangers.
7: rates of use are without the weight of peak hours.
8: strangers may be idle: the bank of a capacity holds them at several paces, each idle or not.
9: what is billed is a factor on the list price in force, and bills alone teach it.
10: short prefixes say less of a cache than long ones; of windows it is noted when their provider last told of them."""
CLASSES = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")
"""Token classes, in the order of a target's five price series."""
RATES = ("ttft", "speed", "length")
"""Rates of a target, in the order of its three series: ms to the first token, output tokens/s, output tokens."""
_LISTED_UNTIL_8 = 6
"""Where a row of prices held the list price until version 8, −1 where there was none."""


class WindowRow(msgspec.Struct, omit_defaults=True):
    """A quota window's state."""

    id: WindowId
    duration_ns: int
    first_request: bool
    status: int
    ledger: list[int]
    use: list[float]
    demand: list[float]
    sketch: list[float]
    told: ToldRow | None = None
    """Of a window that its provider tells of."""
    rolling: list[int] | None = None
    """Units by slice, of a window whose uses were of a rolling one."""


class Row(msgspec.Struct, omit_defaults=True):
    """State of one subject as it stands in `state.v1`. `version` is that of its last snapshot."""

    fold: int
    subject: str
    version: int
    cooldown: Cooldown
    health: list[float] = []
    ttft: list[float] = []
    speed: list[float] = []
    length: list[float] = []
    prices: list[list[float]] = []
    listed: ListPrice | None = None
    """The list price of the latest settlement."""
    windows: list[WindowRow] = []
    lengths: output_length.Held = {}
    cache: list[float] = []
    shut: tuple[int, int] | None = None
    """Of a pool without quota left: since when, and until when at the latest."""


def upcast_row(row: Row) -> Row:
    """A row of an older fold version as this version would have it. Raises StateVersionUnknown."""
    if row.fold == 1:
        # Caches and lengths by route begin anew; version 1 knew of quota gone only as the pool's cooldown.
        if row.cooldown.cause == "quota_exhausted" and row.cooldown.until_ns is not None:
            row.shut = (0, row.cooldown.until_ns)
        row.fold = 2
    if row.fold == 2:
        row.fold = 3  # No provider has told of a window yet: reports carried none.
    if row.fold == 3:
        # Strikes counted request by request say nothing in this version: it forgets them at the next failure.
        row.fold = 4
    if row.fold == 4:
        row.fold = 5  # There were no rolling windows.
    if row.fold == 5:
        row.fold = 6  # Where one filter of a capacity stood, its bank begins: see `Capacity.load`.
    if row.fold == 6:
        row.fold = 7  # There were no peak hours.
    if row.fold == 7:
        row.fold = 8  # Where a smaller bank of a capacity stood, the new one begins: see `Capacity.load`.
    if row.fold == 8:
        # Every settlement had counted as a bill of its list price: what is billed is learned anew.
        known = {
            name: int(numbers[_LISTED_UNTIL_8])
            for name, numbers in zip(CLASSES, row.prices, strict=False)
            if numbers[_LISTED_UNTIL_8] >= 0
        }
        row.listed = msgspec.convert(known, ListPrice) if known else None
        row.prices = []
        row.fold = 9
    if row.fold == 9:
        row.fold = 10  # Short prefixes had counted as long ones: that is forgotten as new ones come.
    if row.fold != FOLD_VERSION:
        raise StateVersionUnknown(
            f"state of {row.subject} has fold version {row.fold}, this build folds version {FOLD_VERSION}:"
            " rebuild the estimator's state from the log"
        )
    return row


class Window(msgspec.Struct):
    """A window's place among the tables; `status` is the last published UVI status code."""

    pool: int
    id: WindowId
    duration_ns: int
    first_request: bool
    status: int = 0


class StateVersionUnknown(Exception):
    """A stored row has a fold version this build cannot read: rebuild from the log."""


class State:
    """Beliefs about every target, pool and window seen so far."""

    def __init__(self) -> None:
        self.targets: dict[TargetId, int] = {}
        self.target_partition: list[int] = []
        self.target_cooldown: list[Cooldown] = []
        self.target_version: list[int] = []
        self.list_price: list[ListPrice | None] = []
        self.lengths: list[output_length.Held] = []
        self.cache: list[list[float]] = []
        self.pools: dict[PoolId, int] = {}
        self.pool_partition: list[int] = []
        self.pool_cooldown: list[Cooldown] = []
        self.pool_version: list[int] = []
        self.pool_windows: list[list[int]] = []
        self.pool_shut: list[tuple[int, int] | None] = []
        """Pools without quota left: since when, and until when at the latest; None = it has some."""
        self.windows: dict[tuple[int, WindowId], int] = {}
        self.window: list[Window] = []
        self.health = Health()
        self.rates = RateFilter()
        self.prices = PriceFilter()
        self.ledger = WindowLedger()
        self.rolling = Rolling()
        self.use = Consumption()
        self.demand = Consumption()
        self.sketch = ValueSketch()
        self.told = Told()

    def target(self, target: TargetId, partition: int) -> int:
        """Index of a target, made at first sight."""
        index = self.targets.get(target)
        if index is None:
            index = self.targets[target] = len(self.targets)
            self.target_partition.append(partition)
            self.target_cooldown.append(Cooldown())
            self.target_version.append(0)
            self.list_price.append(None)
            self.lengths.append({})
            self.cache.append(cache.fresh())
            self.health.ensure(index + 1)
            self.rates.ensure((index + 1) * len(RATES))
            self.prices.ensure((index + 1) * len(CLASSES))
        return index

    def pool(self, pool: PoolId, partition: int) -> int:
        """Index of a pool, made at first sight."""
        index = self.pools.get(pool)
        if index is None:
            index = self.pools[pool] = len(self.pools)
            self.pool_partition.append(partition)
            self.pool_cooldown.append(Cooldown())
            self.pool_version.append(0)
            self.pool_windows.append([])
            self.pool_shut.append(None)
        return index

    def window_of(self, pool: int, window: WindowId, duration_ns: int, *, first_request: bool) -> int:
        """Index of a pool's window, made at first sight; its duration stays for life."""
        key = (pool, window)
        index = self.windows.get(key)
        if index is None:
            index = self.windows[key] = len(self.window)
            self.window.append(Window(pool, window, duration_ns, first_request))
            self.pool_windows[pool].append(index)
            for table in (self.ledger, self.use, self.demand, self.sketch):
                table.ensure(index + 1)
            width: IntArray = np.array([duration_ns], dtype=np.int64)
            place: IntArray = np.array([index], dtype=np.int64)
            self.use.open_series(place, width)
            self.demand.open_series(place, width)
        return index

    def target_row(self, target: TargetId) -> Row:
        """The stored state of a target."""
        i = self.targets[target]
        first = i * len(CLASSES)
        ttft, speed, length = (self.rates.row(i * len(RATES) + place) for place in range(len(RATES)))
        return Row(
            fold=FOLD_VERSION,
            subject=target_subject(target),
            version=self.target_version[i],
            cooldown=self.target_cooldown[i],
            health=self.health.row(i),
            ttft=ttft,
            speed=speed,
            length=length,
            prices=[self.prices.row(first + c) for c in range(len(CLASSES))],
            listed=self.list_price[i],
            lengths=self.lengths[i],
            cache=self.cache[i],
        )

    def pool_row(self, pool: PoolId) -> Row:
        """The stored state of a pool with its windows."""
        i = self.pools[pool]
        return Row(
            fold=FOLD_VERSION,
            subject=pool_subject(pool),
            version=self.pool_version[i],
            cooldown=self.pool_cooldown[i],
            windows=[self._window_row(w) for w in self.pool_windows[i]],
            shut=self.pool_shut[i],
        )

    def _window_row(self, w: int) -> WindowRow:
        window = self.window[w]
        return WindowRow(
            id=window.id,
            duration_ns=window.duration_ns,
            first_request=window.first_request,
            status=window.status,
            ledger=self.ledger.row(w),
            use=self.use.row(w),
            demand=self.demand.row(w),
            sketch=self.sketch.row(w),
            told=self.told.row(w),
            rolling=self.rolling.row(w),
        )

    def load(self, row: Row, partition: int) -> None:
        """Restore one stored row. Raises StateVersionUnknown."""
        row = upcast_row(row)
        kind, _, name = row.subject.partition(":")
        if kind == "target":
            self._load_target(row, self.target(TargetId(name), partition))
        else:
            self._load_pool(row, self.pool(PoolId(name), partition))

    def _load_target(self, row: Row, i: int) -> None:
        self.target_version[i] = row.version
        self.target_cooldown[i] = row.cooldown
        self.health.load(i, row.health)
        for place, numbers in enumerate((row.ttft, row.speed, row.length)):
            self.rates.load(i * len(RATES) + place, numbers)
        self.lengths[i] = output_length.restored(row.lengths)
        self.cache[i] = cache.restored(row.cache)
        for c, numbers in enumerate(row.prices):
            self.prices.load(i * len(CLASSES) + c, numbers)
        self.list_price[i] = row.listed

    def _load_pool(self, row: Row, i: int) -> None:
        self.pool_version[i] = row.version
        self.pool_cooldown[i] = row.cooldown
        self.pool_shut[i] = row.shut
        for stored in row.windows:
            w = self.window_of(i, stored.id, stored.duration_ns, first_request=stored.first_request)
            self.window[w].status = stored.status
            self.ledger.load(w, stored.ledger)
            self.use.load(w, stored.use)
            self.demand.load(w, stored.demand)
            self.sketch.load(w, stored.sketch)
            if stored.told is not None:
                self.told.load(w, stored.duration_ns, stored.told)
            if stored.rolling is not None:
                self.rolling.load(w, stored.duration_ns, stored.rolling)


def indexes(numbers: Iterable[int]) -> IntArray:
    """Table indexes as the models take them."""
    return np.fromiter(numbers, dtype=np.int64)
