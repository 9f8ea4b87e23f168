"""The planner as the gateway calls it in process: one synchronous step from an ask to a recorded plan."""

from collections.abc import Mapping
from typing import Protocol

from msgspec.structs import force_setattr

from tidegate.events.clock import Clock
from tidegate.events.decision import Ask, DecisionMade
from tidegate.events.ids import IdSource
from tidegate.events.signals import DemandSeen
from tidegate.events.types import DecisionId, TargetId
from tidegate.planner.admission import Asked, Refusal, asked_of
from tidegate.planner.appraise import appraise, appraise_all
from tidegate.planner.decide import decide_on
from tidegate.planner.demand import demand_of
from tidegate.planner.overlay import Overlay
from tidegate.planner.panic import let_through
from tidegate.planner.places import places_of
from tidegate.planner.rng import SplitMix64
from tidegate.planner.view import RouteFacts, View


class Views(Protocol):
    """Holder of the current view; the follower is one."""

    @property
    def view(self) -> View:
        """The view in force now."""
        ...


class Planner:
    """Decides on the current view and this worker's overlay. `code` names the running build."""

    def __init__(
        self, views: Views, overlay: Overlay, clock: Clock, ids: IdSource, seeds: SplitMix64, code: str
    ) -> None:
        self._views = views
        self._overlay = overlay
        self._clock = clock
        self._ids = ids
        self._seeds = seeds
        self._code = code

    def plan(self, ask: Ask) -> DecisionMade:
        """The plan for an ask, never awaiting. Raises RouteUnknown."""
        view, clock = self._views.view, self._clock
        now_ns, begun_ns = clock.wall_ns(), clock.mono_ns()
        facts = view.route(ask.route)
        made = decide_on(
            facts,
            ask,
            self._overlay.locals_of(
                facts.places, ask.session, now_ns, view.switches, begun_ns, ask.input_tokens
            ),
            now_ns=now_ns,
            seed=self._seeds.next_seed(),
            decision=DecisionId(self._ids.next_at(now_ns)),
            config=view.digest,
            code=self._code,
        )
        # Fresh and not shared yet: the one moment a frozen struct may still get its last field.
        force_setattr(made, "took_ns", clock.mono_ns() - begun_ns)
        return made

    def switches(self) -> Mapping[TargetId, bool]:
        """Kill-switches in force by target, as the view has them."""
        return self._views.view.switches

    def may_still_try(self, ask: Ask, target: TargetId) -> bool:
        """Whether a candidate of an earlier plan for the ask would be admitted now: what was free then may be taken.

        True for one that the config in force no longer has: a request keeps the config it began with.
        """
        view, now_ns = self._views.view, self._clock.wall_ns()
        route = view.routes.get(ask.route)
        if route is not None and ask.service_tiers:
            route = route.at_tiers(ask.service_tiers)
        facts = None if route is None else next((f for f in route.candidates if f.target == target), None)
        if route is None or facts is None:
            return True
        place, mono_ns = places_of([(facts.target, facts.pool)]), self._clock.mono_ns()
        (local,) = self._overlay.locals_of(
            place, ask.session, now_ns, view.switches, mono_ns, ask.input_tokens
        )
        asked = asked_of(ask, route.route)
        found = appraise(facts, asked, local, now_ns)
        if not isinstance(found, Refusal):
            return True
        return found.reason == "circuit_refusing" and self._is_let_through(route, asked, target, now_ns)

    def _is_let_through(self, route: RouteFacts, asked: Asked, target: TargetId, now_ns: int) -> bool:
        switches, mono_ns = self._views.view.switches, self._clock.mono_ns()
        ask = asked.ask
        views = self._overlay.locals_of(
            route.places, ask.session, now_ns, switches, mono_ns, ask.input_tokens
        )
        admitted, refused = appraise_all(route, asked, views, now_ns)
        if not admitted:
            admitted, _ = let_through(refused, asked, now_ns)
        return any(row[1].target == target for row in admitted)

    def demand(self, decision: DecisionMade) -> tuple[DemandSeen, ...]:
        """What the decision tells the windows' shadow prices; nothing once its route is gone."""
        facts = self._views.view.routes.get(decision.ask.route)
        return () if facts is None else demand_of(decision, facts)
