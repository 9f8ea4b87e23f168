"""What the gateway needs of other rooms; `runtime` fills it."""

from collections.abc import Mapping, Sequence
from typing import Protocol

from tidegate.events.decision import Ask, DecisionMade
from tidegate.events.signals import AttemptFailed, AttemptStarted, DemandSeen, UsageSettled
from tidegate.events.types import TargetId


class Planner(Protocol):
    """Decides in process; never awaits, never does I/O."""

    def plan(self, ask: Ask) -> DecisionMade:
        """The plan for a request, every candidate with its verdict."""
        ...

    def switches(self) -> Mapping[TargetId, bool]:
        """Kill-switches in force by target: True closes it, False opens one that the config disables."""
        ...

    def demand(self, decision: DecisionMade) -> Sequence[DemandSeen]:
        """One record per admissible pool with windows: λ must see demand that went elsewhere."""
        ...

    def may_still_try(self, ask: Ask, target: TargetId) -> bool:
        """Whether a candidate of an earlier plan would be admitted now, with all that was taken since."""
        ...

    def attempt_started(self, event: AttemptStarted, seq: int) -> None:
        """An attempt takes its place and its reserved use; said in the step that decides, before its start is safe."""
        ...

    def attempt_undone(self, event: AttemptStarted) -> None:
        """Its start could not be recorded, so it was never dialed: it takes nothing."""
        ...

    def attempt_settled(self, event: UsageSettled, seq: int, session: str) -> None:
        """An attempt ended; its use counts here until snapshots include it."""
        ...

    def attempt_failed(self, event: AttemptFailed, seq: int) -> None:
        """A failure closes target or pool here until snapshots include it."""
        ...
