"""Quota windows: how much of each period is used, and when it starts anew."""

from collections import deque
from typing import Literal, NamedTuple

from tidegate.simulator.config import WindowRule
from tidegate.simulator.peak_hours import weight_at

_NAMES = ((86400.0, "d"), (3600.0, "h"), (60.0, "m"), (1.0, "s"))


class WindowState(NamedTuple):
    """A window at one moment. `reset_s` is an instant (Unix seconds), None while no period runs; of a rolling window,
    when all of it is free again.

    `nominal_s` is the configured duration, `duration_s` the real one: divided by the speed.
    """

    name: str
    unit: Literal["requests", "tokens"]
    limit: int
    used: int
    nominal_s: float
    duration_s: float
    reset_s: float | None
    told: Literal["count", "percent"] = "count"

    @property
    def percent(self) -> int:
        """What is used, in whole percents: all that headers say of some plans."""
        return round(100.0 * min(self.used / self.limit, 1.0))

    @property
    def remaining(self) -> int:
        """What is left, never below zero."""
        return max(self.limit - self.used, 0)


class Window:
    """One quota period. A request window is charged on admission, a token window on settlement; others of the same
    account use it evenly while it runs."""

    def __init__(self, rule: WindowRule, speed: float) -> None:
        self.rule = rule
        self.name = rule.name or span_name(rule.duration_s)
        self._duration_s = rule.duration_s / speed
        self._outside_per_s = rule.outside_per_hour * speed / 3600.0
        self._start_s: float | None = None
        self._used = 0

    def state(self, now_s: float) -> WindowState:
        """The window now."""
        self._roll(now_s)
        reset_s = self._reset_s()
        return WindowState(
            self.name,
            self.rule.unit,
            self.rule.limit,
            self._all_used(now_s),
            self.rule.duration_s,
            self._duration_s,
            reset_s,
            self.rule.told,
        )

    def admits(self, now_s: float, weight: int) -> bool:
        """Whether one more request fits; tokens are known only afterwards, so any token left admits."""
        self._roll(now_s)
        return self._all_used(now_s) + self._need(now_s, weight) <= self.rule.limit

    def admit(self, now_s: float, weight: int) -> None:
        """A request was let in: a period begins if none runs."""
        self._begin(now_s)
        if self.rule.unit == "requests":
            self._take(now_s, self._need(now_s, weight))

    def settle(self, now_s: float, weighted_tokens: int, arrived_s: float | None = None) -> None:
        """A request was billed; in peak hours counts what arrived in them (`arrived_s`, else now)."""
        if self.rule.unit == "tokens" and weighted_tokens > 0:
            self._begin(now_s)
            peak = weight_at(self.rule.peaks, now_s if arrived_s is None else arrived_s)
            self._take(now_s, weighted_tokens * peak)

    def room_s(self, now_s: float, weight: int) -> float:
        """When a request that does not fit now will, if nobody uses more until then."""
        reset_s = self.state(now_s).reset_s
        return now_s + self._duration_s if reset_s is None else reset_s

    def _need(self, now_s: float, weight: int) -> int:
        return weight * weight_at(self.rule.peaks, now_s) if self.rule.unit == "requests" else 1

    def _take(self, now_s: float, units: int) -> None:
        self._used += units

    def _reset_s(self) -> float | None:
        return None if self._start_s is None else self._start_s + self._duration_s

    def _all_used(self, now_s: float) -> int:
        if self._start_s is None:
            return self._used
        return self._used + int(self._outside_per_s * (now_s - self._start_s))

    def _begin(self, now_s: float) -> None:
        self._roll(now_s)
        if self._start_s is None:
            self._start_s = now_s

    def _roll(self, now_s: float) -> None:
        if self.rule.kind == "fixed":
            start_s = now_s // self._duration_s * self._duration_s
            if start_s != self._start_s:
                self._start_s, self._used = start_s, 0
        elif self._start_s is not None and now_s >= self._start_s + self._duration_s:
            self._start_s, self._used = None, 0


class RollingWindow(Window):
    """A window without periods: each use counts for the duration, to the moment. Others use it evenly, always."""

    def __init__(self, rule: WindowRule, speed: float) -> None:
        super().__init__(rule, speed)
        self._uses: deque[tuple[float, int]] = deque()

    def room_s(self, now_s: float, weight: int) -> float:
        """When enough of what is used is older than the duration."""
        self._roll(now_s)
        need, used = self._need(now_s, weight), self._all_used(now_s)
        for at_s, units in self._uses:
            used -= units
            if used + need <= self.rule.limit:
                return at_s + self._duration_s
        return now_s + self._duration_s

    def _take(self, now_s: float, units: int) -> None:
        self._used += units
        self._uses.append((now_s, units))

    def _reset_s(self) -> float | None:
        return self._uses[-1][0] + self._duration_s if self._uses else None

    def _all_used(self, now_s: float) -> int:
        return self._used + int(self._outside_per_s * self._duration_s)

    def _begin(self, now_s: float) -> None:
        self._roll(now_s)

    def _roll(self, now_s: float) -> None:
        while self._uses and self._uses[0][0] + self._duration_s <= now_s:
            self._used -= self._uses.popleft()[1]


def window_of(rule: WindowRule, speed: float) -> Window:
    """The window that a rule describes."""
    return RollingWindow(rule, speed) if rule.kind == "rolling" else Window(rule, speed)


def span_name(duration_s: float) -> str:
    """`5h`, `7d`, `1m` or `90s`: the largest unit that divides the duration."""
    for size_s, letter in _NAMES:
        if duration_s % size_s == 0:
            return f"{duration_s / size_s:g}{letter}"
    return f"{duration_s:g}s"


def tightest(states: list[WindowState], unit: str) -> WindowState | None:
    """The window of a unit that limits most now; of equals, the shortest."""
    of_unit = [state for state in states if state.unit == unit]
    return min(of_unit, key=lambda state: (state.remaining / state.limit, state.duration_s), default=None)
