"""Fields of a client's body that are held as it sent them, and parsed only where they are short enough to say
something. Pure."""

import re
from typing import Any

import msgspec
from msgspec import Raw

MAX_WORD_BYTES = 256
"""Longest JSON text of a word that means something here: as objects, values take over twenty times their bytes."""
ABSENT = Raw()
"""A field that the client did not send."""

_STRING = re.compile(rb'"[^"]*+"')


class StreamOptions(msgspec.Struct, gc=False):
    """What matters of a chat body's `stream_options`."""

    include_usage: Raw = ABSENT

    @property
    def wants_usage(self) -> bool:
        """True where usage is asked for as an event of its own."""
        return brief(self.include_usage) is True


def brief(raw: Raw, otherwise: Any = None, max_bytes: int = MAX_WORD_BYTES) -> Any:
    """The value of a field: None for an absent one, `otherwise` for one of more than `max_bytes`, which is not
    looked into."""
    if raw is ABSENT:
        return None
    if len(raw) > max_bytes:
        return otherwise
    try:
        return msgspec.json.decode(raw)
    except (msgspec.DecodeError, UnicodeDecodeError):  # such as a number beyond all numbers
        return otherwise


def holds_more_values(text: bytes, most: int) -> bool:
    """Whether a JSON text holds more than so many values, of which each but the first follows a comma or opens an
    array or object. Looks no further than it must; nothing is parsed."""
    if len(text) <= 2 * most or _begun(text) < most:  # commas in strings counted, too
        return False
    plain = text.replace(b"\\\\", b"").replace(b'\\"', b"")
    found, at = 1, 0
    for string in _STRING.finditer(plain):
        found += _begun(plain[at : string.start()])
        if found > most:
            return True
        at = string.end()
    return found + _begun(plain[at:]) > most


def _begun(text: bytes) -> int:
    # One pass at the same speed for any text: `count` is forty times as slow where every other byte is a hit.
    return len(text) - len(text.translate(None, b",[{"))
