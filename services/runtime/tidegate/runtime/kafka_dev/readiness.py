"""Ask one node whether it serves: a probe topic exists, has a leader, and this node is in sync for it."""

import socket
import struct
from dataclasses import dataclass

from tidegate.runtime.kafka_dev import wire
from tidegate.runtime.kafka_dev.properties import HOST

_PROBE_TOPIC = "tidegate-dev-ready"
_REQUEST_TIMEOUT_S = 5.0
_ANSWER_LIMIT = 1 << 20


@dataclass(frozen=True, slots=True)
class Readiness:
    """`reason` says what is still missing while not ready."""

    ready: bool
    reason: str


def probe(port: int, node_id: int, replication: int) -> Readiness:
    """One look at a node; creates the probe topic with `replication` copies when it is absent.

    An answer to these needs everything that ApiVersions would show and more.
    """
    try:
        with socket.create_connection((HOST, port), timeout=_REQUEST_TIMEOUT_S) as connection:
            return _probe(connection, node_id, replication)
    except (OSError, wire.WireError) as error:
        return Readiness(ready=False, reason=f"no answer on port {port}: {error}")


def _probe(connection: socket.socket, node_id: int, replication: int) -> Readiness:
    topic = wire.described_topic(_ask(connection, wire.describe_topic(_PROBE_TOPIC)))
    if topic.error == wire.UNKNOWN_TOPIC:
        request = wire.create_topic(_PROBE_TOPIC, replication, timeout_ms=int(_REQUEST_TIMEOUT_S * 500))
        code = wire.created_topic(_ask(connection, request))
        if code not in {0, wire.TOPIC_ALREADY_EXISTS}:
            return Readiness(ready=False, reason=f"creating a topic of {replication} copies: error {code}")
        topic = wire.described_topic(_ask(connection, wire.describe_topic(_PROBE_TOPIC)))
    if topic.leader < 0:
        return Readiness(ready=False, reason=f"the probe topic has no leader (error {topic.error})")
    if node_id not in topic.in_sync:
        return Readiness(ready=False, reason=f"node {node_id} is not in sync (in sync: {topic.in_sync})")
    return Readiness(ready=True, reason="")


def _ask(connection: socket.socket, request: bytes) -> bytes:
    connection.sendall(request)
    (size,) = struct.unpack(">i", _read(connection, 4))
    if not 0 <= size <= _ANSWER_LIMIT:
        raise wire.WireError(f"an answer of {size} bytes: not a Kafka broker?")
    return _read(connection, size)


def _read(connection: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        part = connection.recv(size - len(data))
        if not part:
            raise wire.WireError("the connection closed")
        data += part
    return bytes(data)
