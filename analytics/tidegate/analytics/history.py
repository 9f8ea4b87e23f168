"""Reads a topic's whole history through the log port, archive included, each event once."""

from collections.abc import AsyncGenerator, Callable, Mapping
from contextlib import aclosing

from tidegate.events.codec import decode_envelope
from tidegate.events.dedup import Marks
from tidegate.events.envelope import Envelope
from tidegate.events.errors import NotAnEnvelope
from tidegate.events.log.port import EventLog, Record, TopicPartition
from tidegate.events.topics import Topic

_POLL_S = 0.2

Ends = Mapping[TopicPartition, int]
"""Position after the last record to read, for every partition that is read."""
Watch = Callable[[int, int], None]
"""Told how many records have been passed, and of how many."""


Phases = Callable[[str], Watch]
"""Told what is done now; answers with who watches it."""


Unread = Callable[[Record, str], None]
"""Told of every record that cannot be read, and why."""


def unreported(_record: Record, _why: str) -> None:
    """Consumers have reported it already."""


def unwatched(_done: int, _total: int) -> None:
    """Nobody looks on."""


def silently(_phase: str) -> Watch:
    """Nobody looks on at any phase."""
    return unwatched


async def ends_of(log: EventLog, topic: Topic) -> Ends:
    """Where the topic ends now. Raises Unavailable."""
    places = [TopicPartition(topic.name, partition) for partition in range(topic.partitions)]
    return {where: await log.end(where) for where in places}


async def events_of(
    log: EventLog,
    ends: Ends,
    begins: Ends | None = None,
    watch: Watch = unwatched,
    unread: Unread = unreported,
) -> AsyncGenerator[tuple[Record, Envelope]]:
    """Every event before `ends`, in the order of each partition, from `begins` or else from the oldest kept.

    What came twice from a source is dropped; bytes that are no envelope are passed over (consumers report
    them) and told to `unread`. Raises Unavailable.
    """
    marks = {where: Marks() for where in ends}
    first = {where: 0 if begins is None else begins.get(where, 0) for where in ends}
    total = sum(max(0, end - first[where]) for where, end in ends.items())
    reader = log.reader(first)
    try:
        while behind := sum(max(0, end - reader.positions()[where]) for where, end in ends.items()):
            watch(total - behind, total)
            for record in await reader.poll(timeout_s=_POLL_S):
                where = TopicPartition(record.topic, record.partition)
                if record.value is None or record.offset >= ends[where]:
                    continue
                try:
                    envelope = decode_envelope(record.value)
                except NotAnEnvelope as error:
                    unread(record, str(error))
                    continue
                if marks[where].accept(envelope.source, envelope.seq):
                    yield record, envelope
        watch(total, total)
    finally:
        await reader.close()


async def envelopes(
    log: EventLog, ends: Ends, kind: str, watch: Watch = unwatched
) -> AsyncGenerator[Envelope]:
    """The events of one type only."""
    async with aclosing(events_of(log, ends, watch=watch)) as found:
        async for _, envelope in found:
            if envelope.type == kind:
                yield envelope
