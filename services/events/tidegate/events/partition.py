"""Which partition a key belongs to: Kafka's murmur2, the same in every topic and adapter."""

import struct
from functools import lru_cache

PARTITIONS = 12
"""Partitions of every topic; fixed for a topic version."""

_SEED = 0x9747B28C
_M = 0x5BD1E995
_MASK = 0xFFFFFFFF


def murmur2(data: bytes) -> int:
    """32-bit unsigned murmur2 with Kafka's seed (Austin Appleby's MurmurHash2)."""
    length = len(data)
    words = length >> 2
    h = _SEED ^ length
    for k in struct.unpack_from(f"<{words}I", data):
        k = (k * _M) & _MASK  # noqa: PLW2901 - the name of the published algorithm
        k = ((k ^ (k >> 24)) * _M) & _MASK  # noqa: PLW2901
        h = ((h * _M) & _MASK) ^ k
    tail = data[words << 2 :]
    if tail:
        h = ((h ^ int.from_bytes(tail, "little")) * _M) & _MASK
    h = ((h ^ (h >> 13)) * _M) & _MASK
    return h ^ (h >> 15)


@lru_cache(maxsize=65_536)
def partition_of(key: str) -> int:
    """Partition of a partition key, as Kafka's default partitioner would choose it."""
    return (murmur2(key.encode()) & 0x7FFFFFFF) % PARTITIONS
