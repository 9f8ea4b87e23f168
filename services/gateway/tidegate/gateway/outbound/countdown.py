"""The running deadlines of one upstream call. Pure: every instant is an argument (loop time, seconds)."""

from math import inf
from typing import Literal

from tidegate.events.config import Deadlines

Expiry = Literal["total", "header", "first_token", "idle"]


class Countdown:
    """When a call is overdue.

    Header and first-token deadlines run from `now`, when the request is written; the idle deadline runs from
    the complete head and starts anew at each body piece; `total_at` is an instant. While paused, all of them
    stand still: time in which we refuse to read says nothing about the upstream.
    """

    __slots__ = ("_paused_at", "first_token_at", "header_at", "idle_s", "progress_at", "total_at")

    def __init__(self, deadlines: Deadlines, *, now: float, total_at: float) -> None:
        self.header_at = now + deadlines.header_s
        self.first_token_at = now + deadlines.first_token_s
        self.idle_s = deadlines.idle_s
        self.progress_at = inf
        self.total_at = total_at
        self._paused_at: float | None = None

    def head_arrived(self, now: float) -> None:
        """The response head is complete: idle runs, header does not."""
        self.header_at = inf
        self.progress_at = now

    def due(self) -> float:
        """The earliest instant at which the call may be overdue; infinite while paused."""
        if self._paused_at is not None:
            return inf
        return min(self.header_at, self.first_token_at, self.progress_at + self.idle_s, self.total_at)

    def expired(self, now: float) -> Expiry | None:
        """Which deadline has passed, the widest first; None while none has."""
        if self._paused_at is not None:
            return None
        if now >= self.total_at:
            return "total"
        if now >= self.header_at:
            return "header"
        if now >= self.first_token_at:
            return "first_token"
        return "idle" if now >= self.progress_at + self.idle_s else None

    def pause(self, now: float) -> None:
        """Stop the clock; again is harmless."""
        if self._paused_at is None:
            self._paused_at = now

    def resume(self, now: float) -> None:
        """Let the clock run again, every deadline later by the length of the pause."""
        if self._paused_at is None:
            return
        paused_s = now - self._paused_at
        self._paused_at = None
        self.header_at += paused_s
        self.first_token_at += paused_s
        self.progress_at += paused_s
        self.total_at += paused_s
