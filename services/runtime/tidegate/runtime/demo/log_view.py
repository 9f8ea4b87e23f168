"""What the log itself holds of a demo: events counted once, the ledger, decisions; followed as it grows."""

import asyncio
from collections import Counter
from collections.abc import Callable

from tidegate.analytics.ledger import Ledger
from tidegate.events.codec import decode_data, decode_envelope
from tidegate.events.decision import DecisionMade
from tidegate.events.envelope import Envelope
from tidegate.events.log.port import EventLog, Record, TopicPartition
from tidegate.events.requests import RequestFinished
from tidegate.events.signals import AttemptStarted
from tidegate.events.snapshots import Applied
from tidegate.events.topics import SIGNALS, TOPICS
from tidegate.runtime.waiting import in_time

POLL_S = 0.05
_POLL_RECORDS = 5_000


class LogView:
    """A fold of every topic from its start. Events that came twice from a source count once."""

    def __init__(self, log: EventLog) -> None:
        self._log = log
        self._places = [
            TopicPartition(topic.name, partition)
            for topic in TOPICS
            if topic.keeps_history
            for partition in range(topic.partitions)
        ]
        self._reader = log.reader(dict.fromkeys(self._places, 0))
        self._marks: dict[tuple[str, int, str], int] = {}
        self.events: Counter[str] = Counter()
        self.ledger = Ledger()
        self.failovers = 0
        """Attempts that followed a failed one of their request."""
        self.decided_ns: list[int] = []
        self.added_ns: list[int] = []
        self.last_failover: DecisionMade | None = None
        """The newest decision of a request that needed a second attempt."""
        self._decisions: dict[str, DecisionMade] = {}
        self._applied: dict[int, dict[str, int]] = {}

    @property
    def ended_requests(self) -> int:
        """Requests that were finished or refused."""
        return self.events["RequestFinished"] + self.events["RequestRefused"]

    @property
    def total_events(self) -> int:
        """Events of every type."""
        return self.events.total()

    async def read(self) -> None:
        """Take what the log holds now. Raises Unavailable, UnknownEvent."""
        ends = await self.ends()
        while any(self._reader.positions()[where] < end for where, end in ends.items()):
            for record in await self._reader.poll(_POLL_RECORDS, POLL_S):
                self._take(record)

    async def ends(self) -> dict[TopicPartition, int]:
        """Where every partition ends now."""
        return {where: await self._log.end(where) for where in self._places}

    async def until(
        self, true: Callable[["LogView"], bool], what: Callable[["LogView"], str], deadline_s: float
    ) -> None:
        """Read on until `true`. Raises NotInTime with `what` is missing."""
        async with in_time(deadline_s, lambda: what(self)):
            await self.read()
            while not true(self):
                await asyncio.sleep(POLL_S)
                await self.read()

    def all_believed(self) -> bool:
        """True when the estimator's snapshots include every signal read so far."""
        return all(
            self._applied.get(partition, {}).get(source, -1) >= seq
            for (topic, partition, source), seq in self._marks.items()
            if topic == SIGNALS.name
        )

    async def close(self) -> None:
        """Release the reader."""
        await self._reader.close()

    def _take(self, record: Record) -> None:
        if record.value is None:
            return
        envelope = decode_envelope(record.value)
        source = (record.topic, record.partition, envelope.source)
        if envelope.seq <= self._marks.get(source, -1):
            return
        self._marks[source] = envelope.seq
        self.events[envelope.type] += 1
        self._fold(envelope)

    def _fold(self, envelope: Envelope) -> None:
        data = decode_data(envelope)
        self.ledger.fold(envelope, data)
        if isinstance(data, DecisionMade):
            self.decided_ns.append(data.took_ns)
            self._decisions[data.ask.request] = data
        elif isinstance(data, RequestFinished):
            decision = self._decisions.pop(envelope.request or "", None)
            if data.overhead_ns is not None:
                self.added_ns.append(data.overhead_ns)
            if data.attempts > 1 and data.outcome == "completed" and decision is not None:
                self.last_failover = decision
        elif isinstance(data, AttemptStarted):
            self.failovers += data.index > 0
        elif isinstance(data, Applied) and data.topic == SIGNALS.name:
            self._applied[data.partition] = data.marks
