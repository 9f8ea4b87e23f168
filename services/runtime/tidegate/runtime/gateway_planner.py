"""Fills the gateway's Planner port with the planner room: decisions, demand, and the local overlay."""

from collections.abc import Mapping, Sequence

from tidegate.events import causes
from tidegate.events.clock import Clock
from tidegate.events.cooldown import Cooldown, is_proof, strike
from tidegate.events.decision import Ask, DecisionMade
from tidegate.events.signals import AttemptFailed, AttemptStarted, DemandSeen, UsageSettled
from tidegate.events.types import TargetId
from tidegate.planner.overlay import Overlay
from tidegate.planner.planner import Planner


class GatewayPlanner:
    """One worker's planner. Counts failures in a row per target as the estimator does for all workers.

    It counts in monotonic time: a closing lasts as long as it is, however the wall clock is set.
    """

    def __init__(self, planner: Planner, overlay: Overlay, clock: Clock) -> None:
        self._planner = planner
        self._overlay = overlay
        self._clock = clock
        self._cooldowns: dict[TargetId, Cooldown] = {}

    def plan(self, ask: Ask) -> DecisionMade:
        """The plan for a request."""
        return self._planner.plan(ask)

    def switches(self) -> Mapping[TargetId, bool]:
        """Kill-switches in force."""
        return self._planner.switches()

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
        if event.target in self._cooldowns:
            self._overlay.tried(event.target, event.pool, self._clock.mono_ns())

    def attempt_undone(self, event: AttemptStarted) -> None:
        """An attempt that never began gives its place back."""
        self._overlay.undone(event.attempt)

    def attempt_settled(self, event: UsageSettled, seq: int, session: str) -> None:
        """An attempt ended."""
        self._overlay.settled(event.attempt, event.windows, seq)
        if event.outcome == "completed":
            cooldown = self._cooldowns.get(event.target)
            if cooldown is not None and event.evidence:
                self._succeeded(cooldown, event)
            self._overlay.remember(
                session, event.target, event.tokens, self._clock.wall_ns(), event.input_estimate
            )

    def _succeeded(self, cooldown: Cooldown, event: UsageSettled) -> None:
        now_ns, took_ns = self._clock.mono_ns(), event.duration_ns
        if is_proof(cooldown, None if took_ns is None else now_ns - took_ns, now_ns):
            del self._cooldowns[event.target]
            self._overlay.reopened(event.target)

    def attempt_failed(self, event: AttemptFailed, seq: int) -> None:
        """A failure: what the table says of it holds here at once, where it says something of the target."""
        if not (event.evidence and causes.says_of_target(event.cause, event.status)):
            return
        now_ns = self._clock.mono_ns()
        cooldown = self._cooldowns.setdefault(event.target, Cooldown())
        consequence = strike(cooldown, event, now_ns, self._clock.wall_ns() - now_ns)
        self._overlay.failed(
            event.target, event.pool, consequence, seq, is_guess=event.cause in causes.FAULTS
        )
        self._overlay.tried(event.target, event.pool, now_ns)
