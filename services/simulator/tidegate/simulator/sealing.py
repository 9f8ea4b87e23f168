"""Signatures of thoughts: only the provider that made them can tell that they are its own."""

import base64
import binascii

from tidegate.simulator.seeded import digest

_SIZE_BYTES = 40


def signature(seed: int, text: str) -> str:
    """The signature of shown thoughts, base64."""
    return base64.b64encode(digest(seed, f"thought/{text}", _SIZE_BYTES)).decode()


def is_signed(seed: int, text: str, found: str) -> bool:
    """Whether this provider signed these very thoughts."""
    return found == signature(seed, text)


def opaque(seed: int, text: str) -> str:
    """Thoughts that nobody can read: base64 that proves by itself who made it."""
    head = digest(seed, f"hidden/{text}", _SIZE_BYTES)
    return base64.b64encode(head + _proof(seed, head)).decode()


def is_opaque(seed: int, found: str) -> bool:
    """Whether this provider made these hidden thoughts, unchanged."""
    try:
        data = base64.b64decode(found, validate=True)
    except (binascii.Error, ValueError):
        return False
    return data[_SIZE_BYTES:] == _proof(seed, data[:_SIZE_BYTES])


def _proof(seed: int, head: bytes) -> bytes:
    return digest(seed, f"proof/{head.hex()}", _SIZE_BYTES)
