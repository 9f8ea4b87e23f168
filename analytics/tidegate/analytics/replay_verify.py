"""Replays recorded decisions bit by bit, from the log alone, and reports what does not come out the same."""

from collections import Counter
from collections.abc import AsyncGenerator, Mapping
from contextlib import aclosing

import msgspec

from tidegate.analytics.history import (
    Ends,
    Phases,
    Unread,
    Watch,
    ends_of,
    envelopes,
    events_of,
    silently,
    unreported,
)
from tidegate.analytics.ports import ReplayPort
from tidegate.events.codec import check_known, decode_data, decode_envelope
from tidegate.events.config import Routing
from tidegate.events.control import ConfigPublished
from tidegate.events.decision import DecisionMade
from tidegate.events.envelope import Envelope
from tidegate.events.errors import BeyondBounds, NotAnEnvelope, UnknownEvent
from tidegate.events.log.port import EventLog, Record
from tidegate.events.snapshots import RateSnapshot, pool_subject, target_subject
from tidegate.events.topics import CONTROL, REQUESTS, SNAPSHOTS

MAX_EXAMPLES = 20
_UNREAD_EXAMPLES = 10
"""Of those: what differs must be seen too."""

Read = tuple[str, int]
"""Subject and version of a snapshot that a decision read."""


class Only(msgspec.Struct, frozen=True, kw_only=True):
    """Which decisions to replay; all by default."""

    since_ns: int | None = None
    route: str | None = None
    tenant: str | None = None

    def takes(self, decision: DecisionMade) -> bool:
        """True when the decision is one of them."""
        return (
            (self.since_ns is None or decision.now_ns >= self.since_ns)
            and self.route in {None, decision.ask.route}
            and self.tenant in {None, decision.ask.tenant}
        )


class Example(msgspec.Struct, frozen=True):
    """A decision that was not identical, and why."""

    decision: str
    request: str
    outcome: str
    detail: str


class ReplayReport(msgspec.Struct, frozen=True, kw_only=True):
    """Counts of every decision replayed; examples of the first that were not identical, or could not be read."""

    decisions: int
    identical: int
    different: int
    other_version: int
    input_missing: int
    unreadable: int = 0
    """Records of the requests topic that no build, or not this one, can read: decisions may be among them."""
    beyond_reach: int | None = 0
    """Decisions that the read model knows and the log, an archive alone, does not hold; None where nobody knows."""
    examples: tuple[Example, ...]

    @property
    def is_clean(self) -> bool:
        """There was something to replay, every record could be reached and read, and all came out identical, but for
        what another version of the code decided. A decision whose inputs are missing proves nothing, so it is not
        clean.
        """
        whole = self.beyond_reach == self.unreadable == 0
        return whole and 0 < self.decisions == self.identical + self.other_version


async def verify(
    log: EventLog, replay: ReplayPort, only: Only | None = None, phases: Phases = silently
) -> ReplayReport:
    """Replay every recorded decision that `only` takes. Horizon: how long the log keeps snapshots.

    Decisions are read twice, so that only the snapshots they name are held in memory.
    Raises Unavailable, UnknownEvent (of a snapshot or a config).
    """
    chosen = Only() if only is None else only
    needed: set[Read] = set()
    unread = _Unread(chosen)
    ends = await ends_of(log, REQUESTS)
    async with aclosing(_decisions(log, ends, phases("finding decisions"), unread)) as found:
        async for _, decision in found:
            if chosen.takes(decision):
                needed.update(_reads(decision))
    configs = await _configs(log)
    snapshots = await _snapshots(log, needed, phases("reading snapshots"))
    outcomes: Counter[str] = Counter()
    examples = unread.examples[:MAX_EXAMPLES]
    async with aclosing(_decisions(log, ends, phases("replaying"), unreported)) as found:
        async for envelope, decision in found:
            if not chosen.takes(decision):
                continue
            outcome, detail = _judge(decision, configs, snapshots, replay)
            outcomes[outcome] += 1
            if outcome != "identical" and len(examples) < MAX_EXAMPLES:
                examples.append(_example(envelope, decision, outcome, detail))
    return ReplayReport(
        decisions=outcomes.total(),
        identical=outcomes["identical"],
        different=outcomes["different"],
        other_version=outcomes["other_version"],
        input_missing=outcomes["input_missing"],
        unreadable=unread.count,
        examples=tuple(examples),
    )


class _Unread:
    """Counts what cannot be read, from the time on that is asked for, and keeps the first."""

    def __init__(self, only: Only) -> None:
        self._since_ns = 0 if only.since_ns is None else only.since_ns
        self.count = 0
        self.examples: list[Example] = []

    def __call__(self, record: Record, why: str) -> None:
        if record.append_ns < self._since_ns:
            return
        self.count += 1
        if len(self.examples) < _UNREAD_EXAMPLES:
            place = f"{record.topic}/{record.partition}/{record.offset}"
            self.examples.append(Example(place, "", "unreadable", why))


async def _decisions(
    log: EventLog, ends: Ends, watch: Watch, unread: Unread
) -> AsyncGenerator[tuple[Envelope, DecisionMade]]:
    """Every decision that can be read. A record of unknown type may be one, so it is told as well."""
    async with aclosing(events_of(log, ends, watch=watch, unread=unread)) as found:
        async for record, envelope in found:
            try:
                if envelope.type == "DecisionMade":
                    yield envelope, decode_data(envelope)
                else:
                    check_known(envelope)
            except (BeyondBounds, UnknownEvent) as error:
                unread(record, str(error))


def _reads(decision: DecisionMade) -> list[Read]:
    found: list[Read] = []
    for verdict in decision.candidates:
        if verdict.target_version is not None:
            found.append((target_subject(verdict.target), verdict.target_version))
        if verdict.pool_version is not None:
            found.append((pool_subject(verdict.pool), verdict.pool_version))
    return found


def _judge(
    decision: DecisionMade,
    configs: Mapping[str, Routing],
    snapshots: Mapping[Read, RateSnapshot],
    replay: ReplayPort,
) -> tuple[str, str | None]:
    routing = configs.get(decision.config)
    if routing is None:
        return "input_missing", f"config {decision.config} is not in the log"
    read = {
        subject: found
        for subject, version in _reads(decision)
        if (found := snapshots.get((subject, version)))
    }
    verification = replay(decision, routing, read)
    return verification.outcome, verification.detail


def _example(envelope: Envelope, decision: DecisionMade, outcome: str, detail: str | None) -> Example:
    return Example(decision.decision, envelope.request or decision.ask.request, outcome, detail or "")


async def _configs(log: EventLog) -> dict[str, Routing]:
    """Every config ever published: the record key is the digest, so the compacted latest keeps all."""
    records, _ = await log.latest(CONTROL.name)
    found: dict[str, Routing] = {}
    for record in records.values():
        try:
            envelope = decode_envelope(record.value or b"")
        except NotAnEnvelope:
            continue
        if envelope.type == "ConfigPublished":
            data: ConfigPublished = decode_data(envelope)
            found[data.digest] = data.routing
    return found


async def _snapshots(log: EventLog, needed: set[Read], watch: Watch) -> dict[Read, RateSnapshot]:
    found: dict[Read, RateSnapshot] = {}
    if not needed:
        return found
    ends = await ends_of(log, SNAPSHOTS)
    async with aclosing(envelopes(log, ends, "RateSnapshot", watch)) as history:
        async for envelope in history:
            snapshot: RateSnapshot = decode_data(envelope)
            if (snapshot.subject, snapshot.version) in needed:
                found[snapshot.subject, snapshot.version] = snapshot
    return found
