"""Everything random in the simulator: keyed digests, so equal seeds give equal runs in any order of calls."""

import hashlib


def digest(seed: int, label: str, size: int = 16) -> bytes:
    """`size` (up to 64) bytes that depend on seed and label only."""
    return hashlib.blake2b(f"{seed}/{label}".encode(), digest_size=size).digest()


def integer(seed: int, label: str) -> int:
    """A uniform integer of 64 bits."""
    return int.from_bytes(digest(seed, label, 8), "big")


def unit(seed: int, label: str) -> float:
    """A uniform number in [0, 1)."""
    return (integer(seed, label) >> 11) / 9007199254740992.0


def noise(seed: int, label: str, size: int) -> bytes:
    """`size` bytes that look random."""
    blocks = (digest(seed, f"{label}/{number}", 64) for number in range(-(-size // 64)))
    return b"".join(blocks)[:size]
