# mypy: untyped-calls-exclude=aiokafka
"""Follow Kafka partitions from given positions."""

import asyncio
from collections import deque
from collections.abc import Mapping, Sequence
from typing import cast

from aiokafka import AIOKafkaConsumer
from aiokafka import TopicPartition as KafkaPlace
from aiokafka.errors import CorruptRecordException, KafkaError, OffsetOutOfRangeError

from tidegate.events.errors import LogCorrupt, LogUnavailable, Refused
from tidegate.events.log.kafka_admin import DeclaredTopics
from tidegate.events.log.kafka_consumer import consumer_of, hand_out_records, offsets_of, start, stop
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.kafka_silence import Silence
from tidegate.events.log.kafka_topics import history_name
from tidegate.events.log.places import topic_at
from tidegate.events.log.port import Record, TopicPartition

_GATHER_MS = 50
"""How long to wait for what waits at the broker: small batches cost a reader that folds them most."""
_TURNS_TO_SEND = 6
"""Of the loop, from when aiokafka's last record is taken until its next request has left."""


class KafkaReader:
    """Follows partitions with a consumer of its own, without a group; sees committed records only."""

    def __init__(
        self, settings: KafkaSettings, begin: Mapping[TopicPartition, int], declared: DeclaredTopics
    ) -> None:
        self._settings = settings
        self._declared = declared
        self._positions = dict(begin)
        self._places = {
            KafkaPlace(history_name(topic_at(where), settings.prefix), where.partition): where
            for where in begin
        }
        self._consumer: AIOKafkaConsumer | None = None
        self._held: deque[tuple[TopicPartition, list[Record]]] = deque()
        """What the consumer gave and nobody took yet, at and after the positions."""
        self._silence: Silence[KafkaPlace] = Silence(settings.stalled_s)

    async def poll(self, max_records: int = 5_000, timeout_s: float = 0.0) -> Sequence[Record]:
        """Next records; see `Reader.poll`. A position below the oldest kept record moves up to it; one
        beyond the end is LogCorrupt: records were lost, or it is a position of another log."""
        await asyncio.sleep(0)  # a reader with a backlog must not starve its loop
        consumer = await self._connected()
        try:
            records = await self._take(consumer, max_records, int(timeout_s * 1_000))
        except OffsetOutOfRangeError as error:
            await self._move_into_range(consumer, error.args[0])
            return ()
        except CorruptRecordException as error:
            raise LogCorrupt(f"Kafka returned a damaged record: {error}") from error
        except KafkaError as error:
            raise LogUnavailable(f"cannot read from Kafka: {error!r}") from error
        heard = {place: consumer.last_poll_timestamp(place) for place in self._places} if not records else {}
        mute = self._silence.mute(asyncio.get_running_loop().time(), heard)
        if mute:
            raise LogUnavailable(
                f"no broker has answered for {mute[0].topic}/{mute[0].partition} and {len(mute) - 1} other"
                f" partitions in {self._settings.stalled_s:.0f} s"
            )
        return records

    async def _take(self, consumer: AIOKafkaConsumer, max_records: int, timeout_ms: int) -> list[Record]:
        """The next records; they and the positions after them are taken together, or neither."""
        await self._gather(consumer, max_records, timeout_ms)
        positions = {where: await consumer.position(place) for place, where in self._places.items()}
        # From here on nothing is awaited.
        records: list[Record] = []
        while self._held and len(records) < max_records:
            where, part = self._held.popleft()
            left = max_records - len(records)
            records += part[:left]
            if left < len(part):
                self._held.appendleft((where, part[left:]))
        positions.update((where, part[0].offset) for where, part in reversed(self._held))
        self._positions = positions
        return records

    async def _gather(self, consumer: AIOKafkaConsumer, max_records: int, timeout_ms: int) -> None:
        """Hold what is here, and while more waits at the broker, also what comes next: batches that hold a part
        of every partition, as they were written side by side, cost a reader that folds them least.

        All of it, even if the caller takes only a part: aiokafka asks for more only when it has nothing left, and
        while the caller works the broker shall, too.
        """
        held = sum(len(part) for _, part in self._held)
        if held:
            timeout_ms = _GATHER_MS if await self._is_behind(consumer) else 0
        try:
            while held < max_records and (batches := await consumer.getmany(timeout_ms=timeout_ms)):
                for place, part in batches.items():
                    self._held.append((self._places[place], cast("list[Record]", part)))  # `hand_out_records`
                    held += len(part)
                is_behind = await self._is_behind(consumer)
                for _ in range(_TURNS_TO_SEND if is_behind else 0):
                    await asyncio.sleep(0)
                if not is_behind:
                    break
                timeout_ms = _GATHER_MS
        except BaseException as error:
            self._rewind(consumer)
            if not (self._held and isinstance(error, KafkaError)):
                raise
            # One partition's fault keeps no other waiting: the consumer asks again, and the next poll tells.

    def _rewind(self, consumer: AIOKafkaConsumer) -> None:
        """A consumer that failed is past whatever it was about to give, and would never give it again."""
        reached = dict(self._positions)
        reached.update((where, part[-1].offset + 1) for where, part in self._held)
        for place, where in self._places.items():
            consumer.seek(place, reached[where])

    async def _is_behind(self, consumer: AIOKafkaConsumer) -> bool:
        """Whether committed records wait at the broker, as far as its last answers tell."""
        for place in self._places:
            end = consumer.last_stable_offset(place)
            if end is not None and await consumer.position(place) < end:
                return True
        return False

    def positions(self) -> Mapping[TopicPartition, int]:
        """Next offset per partition."""
        return dict(self._positions)

    def seek(self, where: TopicPartition, position: int) -> None:
        """Continue `where` from `position`. Raises Refused for a partition that is not followed."""
        if where not in self._positions:
            raise Refused(f"this reader does not follow {where.topic} partition {where.partition}")
        self._positions[where] = position
        self._held = deque(item for item in self._held if item[0] != where)
        if self._consumer is not None:
            place = KafkaPlace(history_name(topic_at(where), self._settings.prefix), where.partition)
            self._consumer.seek(place, position)

    async def close(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        self._held.clear()
        if consumer is not None:
            await stop(consumer)

    async def _connected(self) -> AIOKafkaConsumer:
        if self._consumer is None:
            await self._declared.require()
            consumer = consumer_of(self._settings)
            await start(consumer, self._settings.query_deadline_s)
            hand_out_records(consumer, self._places)
            consumer.assign(list(self._places))
            for place, where in self._places.items():
                consumer.seek(place, self._positions[where])
            self._consumer = consumer
        return self._consumer

    async def _move_into_range(self, consumer: AIOKafkaConsumer, outside: Mapping[KafkaPlace, int]) -> None:
        for place, position in outside.items():
            begin = (await offsets_of(consumer.beginning_offsets, [place], self._settings))[place]
            if position > begin:
                raise LogCorrupt(
                    f"position {position} of {place.topic}/{place.partition} is beyond its end; records were"
                    " lost, or it is a position of another log"
                )
            self.seek(self._places[place], begin)
