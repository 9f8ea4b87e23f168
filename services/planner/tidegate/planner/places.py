"""Where a route may send a request: its targets and pools, and which of its candidates each of them is. Pure."""

from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidegate.events.types import PoolId, TargetId


class Places(msgspec.Struct, frozen=True):
    """Target and pool of each candidate, in the order of the route."""

    pairs: tuple[tuple[TargetId, PoolId], ...]
    of_target: Mapping[TargetId, Sequence[int]]
    of_pool: Mapping[PoolId, Sequence[int]]
    """Positions in `pairs`."""

    def touched(
        self, targets: Iterable[Mapping[TargetId, object]], pools: Mapping[PoolId, object]
    ) -> set[int]:
        """Positions of whose target or pool something is known; what is known of others costs nothing here."""
        found: set[int] = set()
        for held in targets:
            if held:
                for target in self.of_target.keys() & held.keys():
                    found.update(self.of_target[target])
        if pools:
            for pool in self.of_pool.keys() & pools.keys():
                found.update(self.of_pool[pool])
        return found


def places_of(pairs: Iterable[tuple[TargetId, PoolId]]) -> Places:
    """The places of candidates in this order."""
    named = tuple(pairs)
    of_target: dict[TargetId, list[int]] = {}
    of_pool: dict[PoolId, list[int]] = {}
    for at, (target, pool) in enumerate(named):
        of_target.setdefault(target, []).append(at)
        of_pool.setdefault(pool, []).append(at)
    return Places(named, of_target, of_pool)
