# mypy: untyped-calls-exclude=aiokafka
"""Partitions are those that Kafka's own partitioner would choose."""

import aiokafka.partitioner
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.partition import PARTITIONS, murmur2, partition_of

PUBLISHED = {
    b"21": -973932308,
    b"foobar": -790332482,
    b"a-little-bit-long-string": -985981536,
    b"a-little-bit-longer-string": -1486304829,
    b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8": -58897971,
    b"abc": 479470107,
}


@pytest.mark.parametrize(("data", "signed"), PUBLISHED.items())
def test_murmur2_gives_the_values_that_kafka_publishes(data: bytes, signed: int) -> None:
    assert murmur2(data) == signed % (1 << 32)


@given(st.binary(max_size=200))
def test_murmur2_equals_the_clients_own(data: bytes) -> None:
    assert murmur2(data) == aiokafka.partitioner.murmur2(data) % (1 << 32)


@given(st.text(max_size=60, alphabet=st.characters(exclude_categories=["Cs"])))
def test_a_key_has_the_partition_that_kafka_would_choose(key: str) -> None:
    partitioner = aiokafka.partitioner.DefaultPartitioner()
    every = list(range(PARTITIONS))
    assert partition_of(key) == partitioner(key.encode(), every, every)


def test_every_partition_is_used() -> None:
    assert {partition_of(f"pool-{n}") for n in range(200)} == set(range(PARTITIONS))
