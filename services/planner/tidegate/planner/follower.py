"""Keeps the view current from the log: config, kill-switches, snapshots, and what `Applied` covers.

Each batch of records becomes one new view, swapped in at once. While the log is down the last view stays in
force and its age shows in `status`.
"""

import asyncio
from collections.abc import Callable, Iterable
from typing import Any

import msgspec

from tidegate.events.clock import Clock
from tidegate.events.codec import decode_data, decode_envelope
from tidegate.events.config import Routing
from tidegate.events.control import ConfigPublished, TargetDisabled, TargetEnabled
from tidegate.events.errors import LogUnavailable, NotAnEnvelope, TidegateError, UnknownEvent
from tidegate.events.log.port import EventLog, Reader, Record, TopicPartition
from tidegate.events.snapshots import Applied, RateSnapshot
from tidegate.events.topics import CONTROL, SIGNALS, SNAPSHOTS
from tidegate.events.types import TargetId
from tidegate.planner.overlay import Overlay
from tidegate.planner.view import ConfigRefused, View, view_of, with_snapshots, with_switch

POLL_S = 0.25
RETRY_S = 1.0
CONFIG_RETRY_S = 5.0
NS_PER_S = 1_000_000_000

_READ = frozenset({"ConfigPublished", "TargetEnabled", "TargetDisabled", "RateSnapshot", "Applied"})


class FollowerStatus(msgspec.Struct, frozen=True):
    """How well the view follows the log."""

    config: str
    snapshots: int
    newest_snapshot_ns: int | None
    """Wall time of the newest belief held."""
    staleness_s: float | None
    """Seconds since the log last answered; None before it did."""
    damaged: int
    """Records that are no envelope, skipped."""
    problem: str | None
    """Why the view does not follow now, or what it had to leave out."""


class Follower:
    """Holder of the current view. Starts on `routing`; the overlay is told what snapshots now cover.

    `accept` is called with a new config before the view changes to it: whoever serves by the view switches in
    the same step, or raises TidegateError. Then the old view stays in force, and the config is offered again.
    """

    def __init__(
        self,
        log: EventLog,
        routing: Routing,
        overlay: Overlay,
        clock: Clock,
        accept: Callable[[Routing], None] = lambda _: None,
    ) -> None:
        self._accept = accept
        self._declined: ConfigPublished | None = None
        self._declined_ns = 0
        self._log = log
        self._overlay = overlay
        self._clock = clock
        self._view = view_of(routing)
        self._answered_ns: int | None = None
        self._newest_ns: int | None = None
        self._damaged = 0
        self._outage: str | None = None
        self._refused: str | None = None
        self._stopped: dict[TopicPartition, str] = {}
        self._loaded = asyncio.Event()

    @property
    def view(self) -> View:
        """The view in force now."""
        return self._view

    def status(self) -> FollowerStatus:
        """A record of how far behind the view may be."""
        answered = self._answered_ns
        problems = [self._outage, self._refused, *self._stopped.values()]
        return FollowerStatus(
            config=self._view.digest,
            snapshots=len(self._view.snapshots),
            newest_snapshot_ns=self._newest_ns,
            staleness_s=None if answered is None else (self._clock.mono_ns() - answered) / NS_PER_S,
            damaged=self._damaged,
            problem="; ".join([problem for problem in problems if problem]) or None,
        )

    def switch(self, target: TargetId, *, disabled: bool) -> None:
        """An operator's local kill-switch: in force at once, until the log says otherwise."""
        self._view = with_switch(self._view, target, disabled)
        if not disabled:
            self._overlay.reopened(target)

    async def wait_loaded(self) -> None:
        """Return once the latest of the log was read for the first time."""
        await self._loaded.wait()

    async def run(self) -> None:
        """Follow until cancelled; an unavailable log is tried again for ever. Raises LogCorrupt."""
        while True:
            try:
                await self._follow()
            except LogUnavailable as error:
                self._outage = str(error)
                await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        reader = await self._load()
        try:
            while True:
                records = await reader.poll(timeout_s=POLL_S)
                self._answered()
                if records:
                    self._take([fact for record in records if (fact := self._fact(record)) is not None])
                self._offer_again()
        finally:
            await reader.close()

    async def _load(self) -> Reader:
        control, positions = await self._log.latest(CONTROL.name)
        beliefs, more = await self._log.latest(SNAPSHOTS.name)
        facts = [fact for record in _in_order(control.values()) if (fact := self._fact(record)) is not None]
        # A file whose config was never published is newer than the log: it stays until it is published.
        known = {fact.digest for fact in facts if isinstance(fact, ConfigPublished)}
        if self._view.digest not in known:
            facts = [fact for fact in facts if not isinstance(fact, ConfigPublished)]
        facts = [fact for fact in facts if not self._holds(fact)]
        facts += [fact for record in beliefs.values() if (fact := self._fact(record)) is not None]
        self._take(facts)
        self._answered()
        self._loaded.set()
        return self._log.reader({**positions, **more})

    def _answered(self) -> None:
        self._answered_ns = self._clock.mono_ns()
        self._outage = None

    def _fact(self, record: Record) -> Any:
        """The event of a record that this view is made of, None for all others."""
        where = TopicPartition(record.topic, record.partition)
        if record.value is None or where in self._stopped:
            return None
        try:
            envelope = decode_envelope(record.value)
            return decode_data(envelope) if envelope.type in _READ else None
        except NotAnEnvelope:
            self._damaged += 1
        except UnknownEvent as error:
            self._stopped[where] = f"{record.topic}/{record.partition} stopped: {error}"
        return None

    def _holds(self, fact: Any) -> bool:
        """True for a switch already in force: after an outage it is no news."""
        if isinstance(fact, TargetEnabled | TargetDisabled):
            return self._view.switches.get(fact.target) is isinstance(fact, TargetDisabled)
        return False

    def _take(self, facts: Iterable[Any]) -> None:
        """Fold a batch into one new view, then let the overlay drop what the new view covers."""
        snapshots: list[RateSnapshot] = []
        applied: list[Applied] = []
        config: ConfigPublished | None = None
        switches: dict[TargetId, bool] = {}
        for fact in facts:
            match fact:
                case RateSnapshot():
                    snapshots.append(fact)
                case Applied() if fact.topic == SIGNALS.name:
                    applied.append(fact)
                case ConfigPublished():
                    config = fact
                case TargetEnabled() | TargetDisabled():
                    switches[fact.target] = isinstance(fact, TargetDisabled)
                case _:
                    pass
        view = self._view if config is None else self._configured(config)
        for target, disabled in switches.items():
            view = with_switch(view, target, disabled)
        self._view = with_snapshots(view, snapshots)
        self._tell_ends(snapshots)
        seen = [each.at_ns for each in snapshots]
        self._newest_ns = max([*seen, self._newest_ns or 0]) if seen else self._newest_ns
        for target, disabled in switches.items():
            if not disabled:
                self._overlay.reopened(target)
        for each in applied:
            self._overlay.applied(each.partition, each.marks)

    def _tell_ends(self, snapshots: Iterable[RateSnapshot]) -> None:
        """Let the overlay hold when the refusals in the view end."""
        now_ns, mono_ns = self._clock.wall_ns(), self._clock.mono_ns()
        for snapshot in snapshots:
            if self._view.snapshots.get(snapshot.subject) is snapshot:
                self._overlay.believed(snapshot, now_ns, mono_ns)

    def _configured(self, config: ConfigPublished) -> View:
        """The view on a new config; one that cannot be honoured is named and the old one stays."""
        self._refused = self._declined = None
        if config.digest == self._view.digest:
            return self._view
        try:
            view = view_of(config.routing, self._view.snapshots, self._view.switches)
        except ConfigRefused as error:
            self._refused = f"config {config.digest}: {error}"
            return self._view
        if view.digest != config.digest:
            self._refused = (
                f"config {config.digest} reads as {view.digest} here: this build is too old for it"
            )
            return self._view
        try:
            self._accept(config.routing)
        except TidegateError as error:
            self._refused = f"config {config.digest} cannot be served here: {error}"
            self._declined, self._declined_ns = config, self._clock.mono_ns()
            return self._view
        return view

    def _offer_again(self) -> None:
        """What was missing here, a secret for instance, may have come."""
        declined = self._declined
        if declined is not None and self._clock.mono_ns() - self._declined_ns >= CONFIG_RETRY_S * NS_PER_S:
            self._take([declined])


def _in_order(records: Iterable[Record]) -> list[Record]:
    """As the log has them: all configs are in one partition, all switches of a target in one."""
    return sorted(records, key=lambda record: (record.partition, record.offset))
