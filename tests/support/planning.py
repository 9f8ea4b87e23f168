"""Small worlds to plan in: targets, pools, one route, beliefs; money in dollars per million tokens."""

from collections.abc import Mapping, Sequence
from typing import Any

from tidegate.events.config import Candidate, DatedPrice, Pool, Route, Routing, Target, Window
from tidegate.events.decision import NOTHING_LOCAL, Ask, CandidateVerdict, DecisionMade, LocalView
from tidegate.events.money import NANOUSD_PER_USD
from tidegate.events.snapshots import (
    PoolBelief,
    RateSnapshot,
    TargetBelief,
    WindowBelief,
    pool_subject,
    target_subject,
)
from tidegate.events.types import DecisionId, PoolId, RouteName, TargetId, WindowId
from tidegate.planner.decide import decide
from tidegate.planner.view import View, view_of

NOW_NS = 1_800_000_000_000_000_000
S = 1_000_000_000
HOUR_NS = 3_600 * S


def usd(dollars: float) -> int:
    """Nano-dollars."""
    return round(dollars * NANOUSD_PER_USD)


def priced(input_usd: float, output_usd: float, read_usd: float | None = None) -> tuple[DatedPrice, ...]:
    """One list price, in force for ever."""
    read = None if read_usd is None else usd(read_usd)
    return (DatedPrice(input_uncached=usd(input_usd), cache_read=read, output=usd(output_usd)),)


def target(name: str, prices: tuple[DatedPrice, ...] = (), **fields: Any) -> Target:
    """A target that serves everything."""
    fields.setdefault("dialect", "openai")
    return Target(id=TargetId(name), base_url="http://127.0.0.1:9", model="m", prices=prices, **fields)


def flat(name: str, *windows: Window) -> Pool:
    """A pool that bills a fee."""
    return Pool(id=PoolId(name), billing="flat", windows=windows)


def window(name: str, unit: Any, limit: int, **fields: Any) -> Window:
    """A window of an hour from the epoch."""
    fields.setdefault("duration_s", 3_600.0)
    return Window(id=WindowId(name), unit=unit, limit=limit, **fields)


def routing(
    targets: Sequence[Target],
    pools: Sequence[Pool] = (),
    grades: Mapping[str, int] | None = None,
    priorities: Mapping[str, int] | None = None,
    **route: Any,
) -> Routing:
    """One route, `code`, over all targets in the order given."""
    candidates = tuple(
        Candidate(
            target=each.id,
            grade=(grades or {}).get(each.id, 0),
            priority=(priorities or {}).get(each.id, 0),
        )
        for each in targets
    )
    return Routing(
        pools=tuple(pools),
        targets=tuple(targets),
        routes=(Route(name=RouteName("code"), candidates=candidates, **route),),
    )


def ask(**fields: Any) -> Ask:
    """A thousand tokens in, a hundred out at most."""
    world: dict[str, Any] = {
        "request": "r-1",
        "tenant": "acme",
        "key": "k-1",
        "route": "code",
        "dialect": "openai",
        "session": "s-1",
        "input_tokens": 1_000,
        "max_output_tokens": 100,
    }
    return Ask(**(world | fields))


def of_target(name: str, version: int = 1, config: str = "", **belief: Any) -> RateSnapshot:
    """A snapshot of a target."""
    return RateSnapshot(
        subject=target_subject(TargetId(name)),
        version=version,
        at_ns=NOW_NS,
        config=config,
        evidence=0,
        target=TargetBelief(**belief),
    )


def of_pool(
    name: str, *windows: WindowBelief, version: int = 1, config: str = "", **belief: Any
) -> RateSnapshot:
    """A snapshot of a pool."""
    return RateSnapshot(
        subject=pool_subject(PoolId(name)),
        version=version,
        at_ns=NOW_NS,
        config=config,
        evidence=0,
        pool=PoolBelief(windows=windows, **belief),
    )


def used(name: str, units: int, limit: int, **fields: Any) -> WindowBelief:
    """A window whose running period began at the last full hour."""
    fields.setdefault("period_start_ns", NOW_NS - NOW_NS % HOUR_NS)
    return WindowBelief(window=WindowId(name), resets_at_ns=None, used=units, limit=limit, **fields)


def world(config: Routing, *snapshots: RateSnapshot) -> View:
    """The view on a config with snapshots."""
    return view_of(config, {each.subject: each for each in snapshots})


def plan(
    view: View,
    asked: Ask | None = None,
    local: Mapping[str, LocalView] | None = None,
    now_ns: int = NOW_NS,
    seed: int = 7,
) -> DecisionMade:
    """Decide with fixed ids."""
    known = local or {}
    return decide(
        view,
        asked or ask(),
        lambda target, _pool: known.get(target, NOTHING_LOCAL),
        now_ns=now_ns,
        seed=seed,
        decision=DecisionId("d-1"),
        code="test",
    )


def verdict(decision: DecisionMade, name: str) -> CandidateVerdict:
    """The verdict on one target."""
    return next(each for each in decision.candidates if each.target == name)


def reasons(decision: DecisionMade) -> dict[str, str | None]:
    """Reason by target."""
    return {each.target: each.reason for each in decision.candidates}
