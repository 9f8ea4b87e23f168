"""Small steps that tests of every event log share: make records, read until caught up."""

from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence

from tidegate.events.log.port import EventLog, Outgoing, Reader, Record, TopicPartition

OpenLog = Callable[[], Awaitable[EventLog]]
"""Opens another handle on the log under test, as another process would."""


def outgoing(where: TopicPartition, numbers: Iterable[int], key: str = "k", size: int = 8) -> list[Outgoing]:
    """Numbered records of one key; the value starts with the number."""
    return [
        Outgoing(where.topic, where.partition, key.encode(), str(number).encode().ljust(size))
        for number in numbers
    ]


def numbers(records: Iterable[Record]) -> list[int]:
    """The numbers that `outgoing` wrote."""
    return [int(record.value or b"-1") for record in records]


async def drain(log: EventLog, reader: Reader, max_records: int = 5_000) -> list[Record]:
    """Everything up to the ends as they are now."""
    ends = {where: await log.end(where) for where in reader.positions()}
    taken: list[Record] = []
    while any(reader.positions()[where] < end for where, end in ends.items()):
        taken += await reader.poll(max_records, timeout_s=0.05)
    return taken


async def read_all(log: EventLog, places: Sequence[TopicPartition]) -> list[Record]:
    """Everything kept of some partitions."""
    return await read_from(log, dict.fromkeys(places, 0))


async def read_from(log: EventLog, start: Mapping[TopicPartition, int]) -> list[Record]:
    """Everything kept from some positions on."""
    reader = log.reader(start)
    try:
        return await drain(log, reader)
    finally:
        await reader.close()
