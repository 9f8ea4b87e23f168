"""What a bill says of quota: by how much the use of each window was settled too high or too low. Pure."""

from collections.abc import Iterator

import msgspec

from tidegate.analytics.ledger import Entry
from tidegate.events.config import Routing, Target, Window
from tidegate.events.decision import WindowUse
from tidegate.events.money import Tokens, cost_nanousd
from tidegate.events.quota import units_of
from tidegate.events.types import PoolId, TargetId, WindowId


class Quota:
    """The windows of pools as a config declares them; with none, every use stays what it was."""

    def __init__(self, routing: Routing | None) -> None:
        self._windows: dict[tuple[PoolId, WindowId], Window] = {}
        self._targets: dict[TargetId, Target] = {}
        self._flat: set[PoolId] = set()
        if routing is not None:
            self._windows = {(pool.id, each.id): each for pool in routing.pools for each in pool.windows}
            self._targets = {target.id: target for target in routing.targets}
            self._flat = {pool.id for pool in routing.pools if pool.billing == "flat"}

    def changes(self, entry: Entry, tokens: Tokens, calls: int, billed_nanousd: int) -> tuple[WindowUse, ...]:
        """Differences in units for the windows of an attempt that used `tokens` in `calls` billed calls.

        A window that the config no longer has, or that counts what nobody knows, stays as it was settled.
        """
        return tuple(self._changes(entry, tokens, calls, billed_nanousd))

    def _changes(self, entry: Entry, tokens: Tokens, calls: int, billed_nanousd: int) -> Iterator[WindowUse]:
        for use in entry.windows:
            window = self._windows.get((entry.pool, use.window))
            if window is None:
                continue
            dollars = self._listed(entry, tokens) if entry.pool in self._flat else billed_nanousd
            target = self._targets.get(entry.target)
            weight = 1.0 if target is None else target.quota_weight
            units = units_of(window, tokens, min(calls, 1), dollars, weight * use.peak)
            if units is not None and units != use.units:
                yield msgspec.structs.replace(use, units=units - use.units)

    def _listed(self, entry: Entry, tokens: Tokens) -> int | None:
        """The cost at list price: what a window in dollars counts where nothing is billed per token."""
        target = self._targets.get(entry.target)
        price = None if target is None else target.list_price(entry.settled_ns)
        return None if price is None else cost_nanousd(tokens, price)
