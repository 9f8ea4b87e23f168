"""The price board: what a million tokens of a target costs, listed and as believed from its bills, by class. Pure.

Quota of a flat plan has prices too, beside the cash, per million units: the shadow price of each window, by which
requests are routed, and the plan's fee as amortised over what its longest window uses.
"""

import math
from collections.abc import Iterable, Mapping

import msgspec

from tidegate.events.config import Routing, Target
from tidegate.events.snapshots import Belief, RateSnapshot, TargetBelief, pool_subject, target_subject
from tidegate.events.types import PoolId, TargetId

CLASSES = ("input_uncached", "cache_read", "cache_write_5m", "cache_write_1h", "output")


class BoardRow(msgspec.Struct, frozen=True, kw_only=True):
    """One part of a target's price: nano-dollars per million tokens, or of a window's units. None = unknown."""

    target: TargetId
    pool: PoolId
    part: str
    """A token class, or `quota <window> per million <unit>`."""
    listed_nanousd: int | None
    believed_nanousd: int | None
    sd_nanousd: int | None
    """Standard deviation of what is believed; None where it has none."""
    basis: str
    """`billed` once there were bills, else `prior`: the list price; `plan` for tokens of a flat pool, which cost no
    cash; `shadow` or `amortised` for quota."""
    factor: float | None
    """Billed per dollar listed: what a shared key adds or a discount takes off."""
    age_s: float | None
    """Age of the belief."""


def board(routing: Routing, snapshots: Mapping[str, RateSnapshot], now_ns: int) -> list[BoardRow]:
    """Every part of every target that has a price, in the order of the config; `snapshots` by subject."""
    rows: list[BoardRow] = []
    for target in routing.targets:
        flat = routing.pool_of(target).billing == "flat"
        rows += _classes(target, snapshots.get(target_subject(target.id)), now_ns, flat=flat)
        rows += _quota(routing, target, snapshots.get(pool_subject(target.pool_id)), now_ns)
    return rows


def newest(snapshots: Iterable[RateSnapshot]) -> dict[str, RateSnapshot]:
    """The snapshot of each subject with the highest version."""
    found: dict[str, RateSnapshot] = {}
    for snapshot in snapshots:
        known = found.get(snapshot.subject)
        if known is None or known.version < snapshot.version:
            found[snapshot.subject] = snapshot
    return found


def _classes(target: Target, snapshot: RateSnapshot | None, now_ns: int, *, flat: bool) -> list[BoardRow]:
    price = target.list_price(now_ns)
    belief = None if snapshot is None else snapshot.target
    rows: list[BoardRow] = []
    for name in CLASSES:
        listed: int | None = None if price is None else getattr(price, name)
        if listed is None:
            continue
        factor = None if flat or belief is None else _factor(belief, name)
        basis = "plan" if flat else "prior" if factor is None else "billed"
        believed = listed if factor is None else round(listed * factor.mean)
        rows.append(
            BoardRow(
                target=target.id,
                pool=target.pool_id,
                part=name,
                listed_nanousd=listed,
                believed_nanousd=0 if flat else believed,
                sd_nanousd=None if factor is None else round(listed * math.sqrt(max(factor.var, 0.0))),
                basis=basis,
                factor=None if factor is None else factor.mean,
                age_s=None if factor is None else _age_s(snapshot, now_ns),
            )
        )
    return rows


def _factor(belief: TargetBelief, name: str) -> Belief | None:
    """What bills say of a class; None before any."""
    factor: Belief | None = None if belief.billed is None else getattr(belief.billed, name)
    return None if factor is None or factor.prior else factor


def _quota(routing: Routing, target: Target, snapshot: RateSnapshot | None, now_ns: int) -> list[BoardRow]:
    if snapshot is None or snapshot.pool is None:
        return []
    units = {window.id: window.unit for window in routing.pool_of(target).windows}
    rows: list[BoardRow] = []
    for window in snapshot.pool.windows:
        prices = ("shadow", window.shadow_nanousd), ("amortised", window.amortised_nanousd)
        rows += [
            BoardRow(
                target=target.id,
                pool=target.pool_id,
                part=f"quota {window.window} per million {units[window.window]}",
                listed_nanousd=None,
                believed_nanousd=round(nanousd * 1e6),
                sd_nanousd=None,
                basis=basis,
                factor=None,
                age_s=_age_s(snapshot, now_ns),
            )
            for basis, nanousd in prices
            if nanousd is not None and window.window in units
        ]
    return rows


def _age_s(snapshot: RateSnapshot | None, now_ns: int) -> float | None:
    return None if snapshot is None else max(now_ns - snapshot.at_ns, 0) / 1e9
