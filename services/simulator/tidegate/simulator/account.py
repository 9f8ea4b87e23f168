"""The customer's account at a provider: quota windows, concurrency, and the prepaid balance."""

import math
from datetime import UTC, datetime

from tidegate.simulator.config import Model, Provider
from tidegate.simulator.invoice import cost_nanousd
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.tariffs import Charge
from tidegate.simulator.tokens import TokenClasses
from tidegate.simulator.windows import WindowState, window_of

_UNITS = {"d": "day", "h": "hour", "m": "minute", "s": "second"}


class Account:
    """Admits requests and takes what they cost. Raises Refusal 402 or 429 when nothing is left to give."""

    def __init__(self, provider: Provider, speed: float) -> None:
        self._provider = provider
        self._windows = [window_of(rule, speed) for rule in provider.windows]
        self.balance_nanousd = provider.balance_nanousd
        self.in_flight = 0

    def states(self, now_s: float) -> list[WindowState]:
        """Every window now."""
        return [window.state(now_s) for window in self._windows]

    def admit(self, model: Model, now_s: float) -> None:
        """Let a request in and count it, or raise Refusal and count nothing."""
        if self._billing(model) == "prepaid" and (self.balance_nanousd or 0) <= 0:
            raise Refusal(402, "Insufficient Balance: your credit balance is too low. Please add credits.")
        limit = self._provider.concurrency_limit
        if limit is not None and self.in_flight >= limit:
            raise Refusal(
                429,
                f"Too many concurrent requests: your limit is {limit}.",
                retry_after="1",
            )
        for window in self._windows:
            if not window.admits(now_s, model.quota_weight):
                room_s = window.room_s(now_s, model.quota_weight)
                raise exhausted(window.state(now_s)._replace(reset_s=room_s), model.name, now_s)
        for window in self._windows:
            window.admit(now_s, model.quota_weight)
        self.in_flight += 1

    def leave(self) -> None:
        """An admitted request is over."""
        self.in_flight -= 1

    def charge(self, tokens: TokenClasses, model: Model, now_s: float, charge: Charge) -> int:
        """Take billed tokens from windows and balance; the cost in nano-dollars, 0 under a flat plan."""
        for window in self._windows:
            window.settle(now_s, tokens.total * model.quota_weight, charge.arrived_s)
        billing = self._billing(model)
        if billing == "flat":
            return 0
        cost = cost_nanousd(tokens, model, charge)
        if billing == "prepaid" and self.balance_nanousd is not None:
            self.balance_nanousd -= cost
        return cost

    def _billing(self, model: Model) -> str:
        return model.billing or self._provider.billing


def exhausted(state: WindowState, model: str, now_s: float) -> Refusal:
    """A 429 that names the window, its limit and the instant of its reset."""
    reset_s = now_s + state.duration_s if state.reset_s is None else state.reset_s
    wait_s = max(math.ceil(reset_s - now_s), 1)
    at = datetime.fromtimestamp(reset_s, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    return Refusal(
        429,
        f"Rate limit reached for {model}: you have hit your {spoken(state.name)} limit of {state.limit} "
        f"{state.unit}. It resets at {at}. Please try again in {wait_s}s.",
        unit=state.unit,
        retry_after=str(wait_s),
    )


def spoken(name: str) -> str:
    """`5h` as `5-hour`; other names as they are."""
    size, unit = name[:-1], _UNITS.get(name[-1:])
    return f"{size}-{unit}" if unit and size.isdigit() else name
