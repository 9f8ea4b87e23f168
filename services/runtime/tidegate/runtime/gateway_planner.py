"""Fills the gateway's Planner port with the planner room: decisions, demand, and the local overlay."""

from collections.abc import Sequence

from tidegate.events import causes
from tidegate.events.clock import Clock
from tidegate.events.decision import Ask, DecisionMade
from tidegate.events.signals import AttemptFailed, AttemptStarted, DemandSeen, UsageSettled
from tidegate.events.types import TargetId
from tidegate.planner.overlay import Overlay
from tidegate.planner.planner import Planner


class GatewayPlanner:
    """One worker's planner. Counts failures in a row per target: a first one closes nothing."""

    def __init__(self, planner: Planner, overlay: Overlay, clock: Clock) -> None:
        self._planner = planner
        self._overlay = overlay
        self._clock = clock
        self._strikes: dict[TargetId, int] = {}

    def plan(self, ask: Ask) -> DecisionMade:
        """The plan for a request."""
        return self._planner.plan(ask)

    def demand(self, decision: DecisionMade) -> Sequence[DemandSeen]:
        """Demand records of a decision."""
        return self._planner.demand(decision)

    def may_still_try(self, ask: Ask, target: TargetId) -> bool:
        """Whether the target would be admitted now."""
        return self._planner.may_still_try(ask, target)

    def attempt_started(self, event: AttemptStarted, seq: int) -> None:
        """An attempt takes its place; `seq` is not needed, its settlement's covers it."""
        del seq
        self._overlay.started(event.attempt, event.target, event.pool, event.windows)

    def attempt_undone(self, event: AttemptStarted) -> None:
        """An attempt that never began gives its place back."""
        self._overlay.undone(event.attempt)

    def attempt_settled(self, event: UsageSettled, seq: int, session: str) -> None:
        """An attempt ended."""
        self._overlay.settled(event.attempt, event.windows, seq)
        if event.outcome == "completed":
            self._strikes.pop(event.target, None)
            self._overlay.remember(session, event.target, event.tokens, self._clock.wall_ns())

    def attempt_failed(self, event: AttemptFailed, seq: int) -> None:
        """A failure: what the table says of it holds here at once, where it says something of the target."""
        if not event.evidence:
            return
        strikes = self._strikes.get(event.target, 0)
        if causes.says_of_target(event.cause, event.status):
            self._strikes[event.target] = strikes + 1
        consequence = causes.consequence(
            event.cause,
            now_ns=self._clock.wall_ns(),
            repeats=strikes,
            retry_after_ms=event.retry_after_ms,
            reset_at_ns=event.reset_at_ns,
            confidence=event.confidence,
        )
        self._overlay.failed(event.target, event.pool, consequence, seq)
