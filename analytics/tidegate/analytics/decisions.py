"""Finds one recorded decision: the read model says where it stands, the log says what it is."""

from contextlib import aclosing
from typing import NamedTuple

from tidegate.analytics.history import Ends, ends_of, events_of
from tidegate.analytics.ports import SqlSource
from tidegate.analytics.recalled import recall_decision
from tidegate.analytics.sql import ask
from tidegate.events.codec import decode_data
from tidegate.events.decision import DecisionMade
from tidegate.events.errors import BeyondBounds, Unavailable
from tidegate.events.log.port import EventLog, TopicPartition
from tidegate.events.topics import REQUESTS

_THIS = """
SELECT log_partition, log_offset, decision FROM r_decisions
WHERE decision = $id OR request = $id ORDER BY now_ns, log_offset LIMIT 1
"""
_NEWEST = """
SELECT log_partition, log_offset, decision FROM r_decisions ORDER BY now_ns DESC, log_offset DESC LIMIT 1
"""
_POSITIONS = "SELECT log_partition, next_offset FROM v_positions WHERE topic = $topic"


class Found(NamedTuple):
    """A recorded decision."""

    decision: DecisionMade
    is_recalled: bool = False
    """Its record is out of reach: put together from the read model, without what only its gateway knew."""


class _Place(NamedTuple):
    where: TopicPartition
    offset: int
    decision: str


async def find_decision(log: EventLog, source: SqlSource | None, wanted: str | None) -> Found | None:
    """The decision of this id, or of the request of this id; the newest when `wanted` is None.

    What the read model has not folded yet is read from the log to its end; all of it when there is no read
    model (`source` None). A decision beyond the end of the log, which is then an archive alone, is told by the
    read model's rows. None: no such decision is recorded. Raises Refused, Unavailable, UnknownEvent.
    """
    ends = await ends_of(log, REQUESTS)
    begins, place = await _placed(source, wanted)
    found: Found | None = None
    if source is not None and place is not None:
        found = await _at(log, source, place, ends)
    if found is not None and wanted is not None:
        return found
    later = await _first(log, begins, ends, wanted)
    both = (found, None if later is None else Found(later))
    return max((each for each in both if each is not None), key=_decided_ns, default=None)


async def _at(log: EventLog, source: SqlSource, place: _Place, ends: Ends) -> Found | None:
    where, offset, decision = place
    if offset >= ends[where]:
        recalled = await recall_decision(source, decision)
        return None if recalled is None else Found(recalled, is_recalled=True)
    recorded = await _first(log, {where: offset}, {where: offset + 1}, decision)
    return None if recorded is None else Found(recorded)


async def _placed(source: SqlSource | None, wanted: str | None) -> tuple[Ends, _Place | None]:
    """How far the read model has come, and where it has seen the decision; nowhere when it does not answer."""
    if source is None:
        return {}, None
    try:
        positions = await ask(source, _POSITIONS, {"topic": REQUESTS.name})
        seen = await (ask(source, _NEWEST) if wanted is None else ask(source, _THIS, {"id": wanted}))
    except Unavailable:
        return {}, None
    begins = {TopicPartition(REQUESTS.name, partition): offset for partition, offset in positions.rows}
    places = [
        _Place(TopicPartition(REQUESTS.name, partition), offset, decision)
        for partition, offset, decision in seen.rows
    ]
    return begins, places[0] if places else None


def _decided_ns(found: Found) -> int:
    return found.decision.now_ns


async def _first(log: EventLog, begins: Ends, ends: Ends, wanted: str | None) -> DecisionMade | None:
    """Between these positions: the first that is wanted, or the newest of all."""
    newest: DecisionMade | None = None
    async with aclosing(events_of(log, ends, begins)) as events:
        async for _, envelope in events:
            if envelope.type != "DecisionMade":
                continue
            try:
                decision: DecisionMade = decode_data(envelope)
            except BeyondBounds:
                continue
            if wanted in {decision.decision, decision.ask.request}:
                return decision
            if wanted is None and (newest is None or decision.now_ns > newest.now_ns):
                newest = decision
    return newest
