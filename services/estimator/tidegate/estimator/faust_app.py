"""The faust runner: faust-streaming is the source of records, nothing more; state and output are the engine's.

Fenced: raw bytes, no tables, no windows, no exactly_once, one worker. Its commits are an aid, never the truth:
before it starts they are set to the engine's own positions, and what was applied is dropped by offset.
"""

import asyncio
import os
from collections.abc import Callable, Mapping
from typing import Any

import faust
from aiokafka import AIOKafkaConsumer
from aiokafka.structs import TopicPartition as KafkaPlace

from tidegate.estimator.engine import Alarms, Engine
from tidegate.events.clock import Clock
from tidegate.events.config import Routing
from tidegate.events.ids import IdSource
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.kafka_topics import history_name
from tidegate.events.log.port import EventLog, Record, TopicPartition
from tidegate.events.topics import SIGNALS

APP_ID = "tidegate-estimator-faust"
MAX_BUFFER = 2_000
TICK_S = 0.05
NS_PER_S = 1_000_000_000


class FaustRunner:
    """One faust worker that feeds one engine. A fault of the engine ends the process: it never skips."""

    def __init__(
        self,
        open_log: Callable[[], EventLog],
        kafka: KafkaSettings,
        clock: Clock,
        ids: IdSource,
        routing: Callable[[], Routing],
        alarms: Alarms,
        publish_every_s: float = 0.25,
    ) -> None:
        self._open_log = open_log
        self._kafka = kafka
        self._clock = clock
        self._ids = ids
        self._routing = routing
        self._alarms = alarms
        self._publish_every_s = publish_every_s
        self._buffer: list[Record] = []
        self._topic = history_name(SIGNALS, kafka.prefix)
        # A group of its own for each life: in a shared one, a member that was killed holds the partitions and
        # refuses commits until the broker gives it up, a minute later.
        self._group = f"{kafka.prefix}{APP_ID}-{ids.next()}"
        self.engine: Engine | None = None
        self.restarts = 0
        """Always: a fault ends this process."""

    async def run(self, stopping: Callable[[], bool]) -> None:
        """Until told to stop. Raises Fenced, LogUnavailable, AckUnknown: start again from the stored state."""
        log = self._open_log()
        engine = self.engine = Engine(
            log, self._clock, self._ids, self._routing(), self._alarms, self._publish_every_s
        )
        app = None
        try:
            positions = await engine.open()
            await self._set_group(positions)
            app = self._app()
            await app.start()
            while not stopping():
                await asyncio.sleep(TICK_S)
                if self._routing() is not engine.routing:
                    engine.configure(self._routing())
                self._drain(engine)
                if engine.is_due():
                    await engine.commit()
            self._drain(engine)
            await engine.commit()
        finally:
            if app is not None:
                await app.stop()
            await engine.close()
            await log.close()

    def _app(self) -> Any:
        app: Any = faust.App(
            self._group,
            broker=[f"kafka://{broker.strip()}" for broker in self._kafka.bootstrap.split(",")],
            broker_client_id=self._kafka.client_id,
            broker_credentials=_credentials(self._kafka),
            web_enabled=False,
            topic_disable_leader=True,
            table_standby_replicas=0,
            consumer_auto_offset_reset="earliest",
            producer_linger=0.02,
            stream_wait_empty=False,
            broker_max_poll_records=MAX_BUFFER,
            datadir=os.path.join(os.sep, "nonexistent"),  # noqa: PTH118 - faust wants text; no table writes
        )
        topic = app.topic(self._topic, value_type=bytes, value_serializer="raw", key_serializer="raw")

        async def signals(stream: Any) -> None:
            async for event in stream.events():
                # Nothing here may raise: faust would acknowledge the record and skip it.
                self._buffer.append(_record(event.message))

        app.agent(topic, name="signals")(signals)
        return app

    def _drain(self, engine: Engine) -> None:
        records, self._buffer = self._buffer, []
        if records:
            engine.take(records)

    async def _set_group(self, positions: Mapping[TopicPartition, int]) -> None:
        """Make the group's committed offsets equal to what the engine has applied."""
        consumer: Any = AIOKafkaConsumer(  # type: ignore[no-untyped-call]
            group_id=self._group,
            enable_auto_commit=False,
            **self._kafka.client_options(),
        )
        await consumer.start()
        try:
            places = {KafkaPlace(self._topic, at.partition): offset for at, offset in positions.items()}
            consumer.assign(list(places))
            await consumer.commit(places)
        finally:
            await consumer.stop()


def _credentials(kafka: KafkaSettings) -> Any:
    if kafka.security_protocol.startswith("SASL"):
        return faust.SASLCredentials(
            username=kafka.sasl_username,
            password=kafka.sasl_password,
            ssl_context=kafka.ssl_context,
            mechanism=kafka.sasl_mechanism,
        )
    return None if kafka.ssl_context is None else faust.SSLCredentials(kafka.ssl_context)


def _record(message: Any) -> Record:
    return Record(
        topic=SIGNALS.name,
        partition=message.partition,
        offset=message.offset,
        key=message.key or b"",
        value=message.value,
        append_ns=int(message.timestamp * NS_PER_S),
    )
