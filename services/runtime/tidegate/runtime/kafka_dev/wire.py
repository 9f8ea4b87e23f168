"""The two Kafka requests that tell whether a node is ready, as bytes. Pure.

CreateTopics v2 and Metadata v1: old, not flexible, and offered by every 4.x broker.
"""

import struct
from dataclasses import dataclass

_CREATE_TOPICS, _METADATA = 19, 3
TOPIC_ALREADY_EXISTS = 36
UNKNOWN_TOPIC = 3


class WireError(ValueError):
    """Bytes that are not the expected answer."""


@dataclass(frozen=True, slots=True)
class TopicState:
    """What one node believes about a topic's first partition; `leader` is -1 when there is none."""

    error: int
    leader: int
    in_sync: tuple[int, ...]


def create_topic(name: str, replication: int, timeout_ms: int) -> bytes:
    """A framed request for a topic of one partition."""
    topic = _string(name) + struct.pack(">ihii", 1, replication, 0, 0)
    return _framed(_CREATE_TOPICS, 2, struct.pack(">i", 1) + topic + struct.pack(">i?", timeout_ms, False))


def describe_topic(name: str) -> bytes:
    """A framed request for the state of one topic."""
    return _framed(_METADATA, 1, struct.pack(">i", 1) + _string(name))


def created_topic(answer: bytes) -> int:
    """The error code in the answer to `create_topic`; 0 means created."""
    reader = _Reader(answer)
    reader.take(">ii")  # correlation id, throttle time
    if reader.take(">i")[0] != 1:
        raise WireError("expected one topic in the answer to CreateTopics")
    reader.skip_string()
    return int(reader.take(">h")[0])


def described_topic(answer: bytes) -> TopicState:
    """The state in the answer to `describe_topic`."""
    reader = _Reader(answer)
    reader.take(">i")
    for _ in range(reader.take(">i")[0]):
        reader.take(">i")
        reader.skip_string()
        reader.take(">i")
        reader.skip_string()
    reader.take(">i")  # controller id
    if reader.take(">i")[0] != 1:
        raise WireError("expected one topic in the answer to Metadata")
    error = int(reader.take(">h")[0])
    reader.skip_string()
    reader.take(">?")
    if reader.take(">i")[0] == 0:
        return TopicState(error=error, leader=-1, in_sync=())
    _, _, leader = reader.take(">hii")
    reader.integers()  # replicas
    return TopicState(error=error, leader=int(leader), in_sync=reader.integers())


def _framed(api: int, version: int, body: bytes) -> bytes:
    payload = struct.pack(">hhi", api, version, 1) + _string("tidegate-dev") + body
    return struct.pack(">i", len(payload)) + payload


def _string(text: str) -> bytes:
    data = text.encode()
    return struct.pack(">h", len(data)) + data


class _Reader:
    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def take(self, layout: str) -> tuple[int, ...]:
        try:
            values = struct.unpack_from(layout, self._data, self._at)
        except struct.error as error:
            raise WireError(f"answer ends at byte {len(self._data)}") from error
        self._at += struct.calcsize(layout)
        return values

    def skip_string(self) -> None:
        (length,) = self.take(">h")
        self._at += max(0, length)

    def integers(self) -> tuple[int, ...]:
        return self.take(f">{self.take('>i')[0]}i")
