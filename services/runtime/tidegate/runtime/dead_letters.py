"""Reports records that no consumer can read: through a journal slot of the consumer's own, as all else."""

import hashlib

from tidegate.events.control import DeadLetter
from tidegate.events.errors import JournalUnwritable
from tidegate.events.journal.journal import Journal
from tidegate.events.log.port import Record, TopicPartition
from tidegate.events.topics import DEADLETTER
from tidegate.runtime.telemetry import logger


class DeadLetters:
    """Coordinates and hash of a bad record go to the dead-letter topic; a stopped partition is an alarm."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self.count = 0
        self.stops: dict[TopicPartition, str] = {}

    def dead_letter(self, record: Record, error: str) -> None:
        """A record that is no envelope, or tells what cannot be held."""
        value = record.value or b""
        event = DeadLetter(
            topic=record.topic,
            partition=record.partition,
            offset=record.offset,
            sha256=hashlib.sha256(value).hexdigest(),
            length=len(value),
            error=error[:200],
        )
        self.count += 1
        key = f"{record.topic}/{record.partition}/{record.offset}"
        try:
            self._journal.record(DEADLETTER, record.partition, key, event)
        except JournalUnwritable:
            logger().error(
                "dead letter could not be recorded", topic=record.topic, partition=record.partition
            )

    def stopped(self, where: TopicPartition, error: str) -> None:
        """A partition holds an event of the future."""
        self.stops[where] = error
        logger().error(
            "partition stopped: upgrade this consumer", topic=where.topic, partition=where.partition
        )
