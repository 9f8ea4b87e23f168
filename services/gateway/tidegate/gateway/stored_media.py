"""Images and documents that a body names by the id of a file at the provider: nothing here tells their size. Pure."""

import re
from typing import NamedTuple

from tidegate.gateway.inline_data import MAX_LOOKS
from tidegate.gateway.remote_media import (
    ANTHROPIC_IMAGE_TOKENS,
    DOCUMENT_TOKENS,
    LOW_DETAIL_TOKENS,
    OPENAI_IMAGE_TOKENS,
)

MARK = b'"file_id"'
_VALUE = re.compile(rb'\s*:\s*"')
_BEFORE_KEY = b"{, \t\r\n"
_LOW = re.compile(rb'"detail"\s*:\s*"low"')
_OWNER = re.compile(rb'"(file|source)"\s*:\s*$')
_NEAR_BYTES = 160
"""How far from the key the other fields of its object, and of the one around it, may stand."""


class StoredMedia(NamedTuple):
    """Parts that are named by a file id, and the declared guess of what they count for: it is never nothing."""

    parts: int
    tokens: int
    documents: int = 0


NONE = StoredMedia(0, 0)


def stored_media(blob: bytes) -> StoredMedia:
    """The parts of a conversation (JSON text) that are files of the provider. Ids elsewhere are text.

    It is searched from the end: so long a needle is found five times as fast that way.
    """
    at = blob.rfind(MARK)
    if at < 0:
        return NONE
    parts = tokens = documents = looks = 0
    while at >= 0 and looks < MAX_LOOKS:
        looks += 1
        if blob[at - 1] in _BEFORE_KEY and _VALUE.match(blob, at + len(MARK)) and (found := _guess(blob, at)):
            parts += 1
            tokens += found
            documents += found == DOCUMENT_TOKENS
        at = blob.rfind(MARK, 0, at)
    return StoredMedia(parts, tokens, documents)


def _guess(blob: bytes, at: int) -> int:
    """Tokens that are assumed for the part around the key; 0 where there is none."""
    before, after = blob[max(0, at - _NEAR_BYTES) : at], blob[at : at + _NEAR_BYTES]
    opened = before.rfind(b"{")
    inside = before[opened + 1 :] + after.partition(b"}")[0]
    if b'"input_file"' in inside:
        return DOCUMENT_TOKENS
    if b'"input_image"' in inside:
        return LOW_DETAIL_TOKENS if _LOW.search(inside) else OPENAI_IMAGE_TOKENS
    owner = _OWNER.search(before[: max(0, opened)])
    if owner is None:
        return 0
    around = before[before.rfind(b"{", 0, owner.start()) + 1 : owner.start()]
    around += b"}".join(after.split(b"}", 2)[1:2])
    is_image = owner[1] == b"source" and b'"document"' not in around
    return ANTHROPIC_IMAGE_TOKENS if is_image else DOCUMENT_TOKENS
