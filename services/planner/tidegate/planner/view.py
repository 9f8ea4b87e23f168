"""The immutable view a decision reads: routing and the latest snapshots, compiled per route. Pure."""

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from tidegate.events.config import Pool, Route, Routing, Target
from tidegate.events.errors import Refused
from tidegate.events.snapshots import RateSnapshot, pool_subject, target_subject
from tidegate.events.types import PoolId, TargetId
from tidegate.planner.facts import CandidateFacts, candidate_facts, with_tiers
from tidegate.planner.places import Places, places_of


class ConfigRefused(Refused):
    """The routing names something it does not declare."""

    code = "config_refused"


class RouteUnknown(Refused):
    """The view knows no such route."""

    code = "route_unknown"


class RouteFacts(msgspec.Struct, frozen=True, kw_only=True):
    """A route with its candidates in declared order, and the subjects whose snapshots they read."""

    route: Route
    candidates: tuple[CandidateFacts, ...]
    places: Places
    """Target and pool of each candidate."""
    subjects: frozenset[str]
    lacks: int
    """Bits of the needs that some candidate cannot serve."""
    context_window: int
    max_output_tokens: int
    """What every candidate can take."""
    mixed_grades: bool
    has_windows: bool
    """Some candidate's pool has a quota to run out of."""
    flat: Mapping[TargetId, bool]
    """By target, whether its pool bills a fee instead of each request."""

    def at_tiers(self, tiers: Iterable[tuple[TargetId, str]]) -> "RouteFacts":
        """The route for a request that asks for these service tiers. A target that lists no price for its tier costs
        the usual one, as its settlement will."""
        asked = dict(tiers)
        candidates = tuple([each.at_tier.get(asked.get(each.target, ""), each) for each in self.candidates])
        return msgspec.structs.replace(self, candidates=candidates)


class View(msgspec.Struct, frozen=True):
    """Everything `decide` reads beside the ask and the local values. Replaced, never changed."""

    routing: Routing
    digest: str
    snapshots: Mapping[str, RateSnapshot]
    switches: Mapping[TargetId, bool]
    """Kill-switches by target: True is disabled, False is enabled against the config."""
    routes: Mapping[str, RouteFacts]

    def route(self, name: str) -> RouteFacts:
        """The compiled route. Raises RouteUnknown."""
        facts = self.routes.get(name)
        if facts is None:
            raise RouteUnknown(f"no route {name!r} in config {self.digest}")
        return facts


def view_of(
    routing: Routing,
    snapshots: Mapping[str, RateSnapshot] | None = None,
    switches: Mapping[TargetId, bool] | None = None,
    only: str | None = None,
) -> View:
    """Compile a routing with snapshots by subject; `only` names the one route wanted.

    Raises ConfigRefused when a route names an undeclared target.
    """
    held = dict(snapshots or {})
    digest = routing.digest()
    compiled = _Compiler(routing, digest, held)
    routes: dict[str, RouteFacts] = {
        route.name: compiled.route(route) for route in routing.routes if only is None or route.name == only
    }
    return View(routing, digest, held, dict(switches or {}), routes)


def with_snapshots(view: View, changed: Iterable[RateSnapshot]) -> View:
    """The view with newer snapshots; one whose version is not newer than the held one changes nothing."""
    held = dict(view.snapshots)
    subjects: set[str] = set()
    for snapshot in changed:
        known = held.get(snapshot.subject)
        if known is None or snapshot.version > known.version:
            held[snapshot.subject] = snapshot
            subjects.add(snapshot.subject)
    if not subjects:
        return view
    compiled = _Compiler(view.routing, view.digest, held)
    routes = {
        name: facts if facts.subjects.isdisjoint(subjects) else compiled.route(facts.route)
        for name, facts in view.routes.items()
    }
    return View(view.routing, view.digest, held, view.switches, routes)


def with_switch(view: View, target: TargetId, disabled: bool) -> View:
    """The view with one kill-switch set."""
    return msgspec.structs.replace(view, switches={**view.switches, target: disabled})


class _Compiler:
    __slots__ = ("_digest", "_members", "_pools", "_snapshots", "_targets")

    def __init__(self, routing: Routing, digest: str, snapshots: Mapping[str, RateSnapshot]) -> None:
        self._digest = digest
        self._snapshots = snapshots
        self._targets: dict[TargetId, Target] = {target.id: target for target in routing.targets}
        self._pools: dict[PoolId, Pool] = {pool.id: pool for pool in routing.pools}
        self._members: defaultdict[PoolId, list[Target]] = defaultdict(list)
        for target in routing.targets:
            self._members[target.pool_id].append(target)

    def route(self, route: Route) -> RouteFacts:
        candidates: list[CandidateFacts] = []
        subjects: list[str] = []
        for index, candidate in enumerate(route.candidates):
            target = self._targets.get(candidate.target)
            if target is None:
                raise ConfigRefused(
                    f"route {route.name!r} names target {candidate.target!r}, which is not declared"
                )
            pool = self._pools.get(target.pool_id) or Pool(id=target.pool_id)
            names = target_subject(target.id), pool_subject(pool.id)
            beliefs = self._snapshots.get(names[0]), self._snapshots.get(names[1])
            members = self._members[pool.id]
            facts = candidate_facts(route, index, target, pool, members, beliefs, self._digest)
            candidates.append(with_tiers(facts, target))
            subjects += names
        return _route_facts(route, candidates, subjects)


def _route_facts(route: Route, candidates: Sequence[CandidateFacts], subjects: Iterable[str]) -> RouteFacts:
    lacks = 0
    for facts in candidates:
        lacks |= facts.lacks
    return RouteFacts(
        route=route,
        candidates=tuple(candidates),
        places=places_of((facts.target, facts.pool) for facts in candidates),
        subjects=frozenset(subjects),
        lacks=lacks,
        context_window=min([facts.context_window for facts in candidates], default=0),
        max_output_tokens=min([facts.max_output_tokens for facts in candidates], default=0),
        mixed_grades=len({facts.grade for facts in candidates}) > 1,
        has_windows=any(facts.quota is not None for facts in candidates),
        flat={facts.target: facts.flat for facts in candidates},
    )
