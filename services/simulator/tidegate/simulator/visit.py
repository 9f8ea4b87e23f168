"""One request on its way through a provider: its plan, and what would be billed if the client left now."""

from collections.abc import Iterator

from tidegate.simulator.actions import Head
from tidegate.simulator.cache import Lookup
from tidegate.simulator.config import Model
from tidegate.simulator.invoice import Line
from tidegate.simulator.plan import Step
from tidegate.simulator.tokens import NO_TOKENS, TokenClasses


class Visit:
    """Follows the plan. `tokens` are those of the whole answer; `model` is None if never admitted."""

    def __init__(
        self,
        line: Line,
        steps: Iterator[Step],
        tokens: TokenClasses = NO_TOKENS,
        model: Model | None = None,
        lookup: Lookup | None = None,
    ) -> None:
        self.line = line
        self.steps = steps
        self.tokens = tokens
        self.model = model
        self.lookup = lookup
        self.accrues = False
        self.produced = 0
        self._coming = 0
        self._since_s = line.arrived_s
        self._until_s = line.arrived_s

    def wait_for(self, step: Step) -> float:
        """Begin the wait before a step; the instant at which it is due (Unix seconds)."""
        self.accrues = step.accrues
        self._coming = max(step.produced, self.produced)
        self._since_s = self._until_s
        self._until_s += step.wait_s
        return self._until_s

    def reach(self, step: Step) -> None:
        """The wait is over."""
        self.produced = self._coming
        if isinstance(step.action, Head):
            self.line.status = step.action.status

    def produced_by(self, now_s: float) -> int:
        """Output tokens generated up to now, in the middle of a wait: evenly over its time, rounded down."""
        span_s = self._until_s - self._since_s
        if span_s <= 0:
            return self.produced
        share = min(max((now_s - self._since_s) / span_s, 0.0), 1.0)
        return self.produced + int((self._coming - self.produced) * share)
