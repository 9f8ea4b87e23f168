"""The bytes of the readiness requests, against answers recorded from Kafka 4.1.2."""

import struct

import pytest

from tidegate.runtime.kafka_dev import wire

NAME = b"\x00\x12tidegate-dev-ready"
ONE_BROKER = (
    b"\x00\x00\x00\x01\x00\x00\x00\x01\x00\x00\x00\x01\x00\t127.0.0.1\x00\x00cF\xff\xff\x00\x00\x00\x01"
)
ABSENT = ONE_BROKER + b"\x00\x00\x00\x01\x00\x03" + NAME + b"\x00\x00\x00\x00\x00"
CREATED = b"\x00\x00\x00\x01\x00\x00\x00\x00\x00\x00\x00\x01" + NAME + b"\x00\x00\xff\xff"


def test_an_absent_topic_is_told_from_one_without_leader() -> None:
    assert wire.described_topic(ABSENT) == wire.TopicState(wire.UNKNOWN_TOPIC, leader=-1, in_sync=())


def test_leader_and_in_sync_replicas_are_read() -> None:
    partition = struct.pack(">hii i3i i2i", 0, 0, 2, 3, 1, 2, 3, 2, 2, 3)
    answer = ONE_BROKER + b"\x00\x00\x00\x01\x00\x00" + NAME + b"\x00" + b"\x00\x00\x00\x01" + partition
    assert wire.described_topic(answer) == wire.TopicState(0, leader=2, in_sync=(2, 3))


def test_the_error_of_a_created_topic_is_read() -> None:
    assert wire.created_topic(CREATED) == 0
    assert (
        wire.created_topic(CREATED.replace(b"ready\x00\x00", b"ready\x00\x24")) == wire.TOPIC_ALREADY_EXISTS
    )


@pytest.mark.parametrize("length", range(0, len(ABSENT), 7))
def test_an_answer_that_ends_early_is_an_error(length: int) -> None:
    with pytest.raises(wire.WireError):
        wire.described_topic(ABSENT[:length])


def test_requests_carry_their_own_length() -> None:
    for request in (wire.describe_topic("a"), wire.create_topic("a", replication=3, timeout_ms=500)):
        assert struct.unpack(">i", request[:4]) == (len(request) - 4,)
