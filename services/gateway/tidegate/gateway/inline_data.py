"""Images, documents and sound that a body carries as base64: what of it is no text, and what it counts for. Pure."""

import re
from typing import NamedTuple

IMAGE_TOKENS = 1_600
"""Estimate for one image: what vendors charge for a full-size one (Anthropic: width × height ÷ 750, at most 1,568)."""
PAGE_BYTES = 65_536
"""Base64 bytes of a document that are taken for one page."""
PAGE_TOKENS = 3_000
"""Estimate for one page of a document: its text and its picture (Anthropic: 1,500 to 3,000 tokens a page)."""
SOUND_BYTES_PER_TOKEN = 1_000
"""Base64 bytes of sound that are taken for one token: between compressed sound and samples at 10 tokens a second."""

MAX_LOOKS = 4_096
"""Places that are looked at: more than any conversation has images."""

MARK = b'"data'
"""Begins both spellings: the value `"data:…;base64,…"` of a URL, and the key `"data":"…"` of a source."""
_URL = re.compile(rb'"data:([^",;]{0,128})(?:;[^",;]{0,128})*;base64,')
_URL_KEY = re.compile(rb'"(?:url|image_url|file_data|file_url)"\s*:\s*$')
_KEY = re.compile(rb'"data"\s*:\s*"')
_SOUND_KEY = re.compile(rb'"input_audio"\s*:\s*$')
_ALPHABET = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/=-_\\"
_NEAR_BYTES = 160
"""How far from the data the other fields of its source, or its key, may stand."""


class InlineData(NamedTuple):
    """Base64 that the provider decodes: its bytes in the body, and the tokens it is estimated to be read as."""

    size_bytes: int
    tokens: int
    documents: int = 0
    """How many of what is there are documents."""


NONE = InlineData(0, 0)


def inline_data(blob: bytes) -> InlineData:
    """What base64 the JSON text of a conversation carries in places where vendors decode it.

    Base64 elsewhere is text to the model and stays counted as such, and so is what is not base64 throughout, and
    what stands behind `MAX_LOOKS` places that might hold any.
    """
    at = blob.find(MARK)
    if at < 0:
        return NONE
    size = tokens = documents = looks = 0
    while at >= 0 and looks < MAX_LOOKS:
        looks += 1
        found = _payload(blob, at)
        if found is not None:
            begin, at, kind = found
            size += at - begin
            tokens += _tokens_of(kind, at - begin)
            documents += b"application/" in kind or b"text/" in kind
        at = blob.find(MARK, at + 1)
    return InlineData(size, tokens, documents)


def _payload(blob: bytes, at: int) -> tuple[int, int, bytes] | None:
    """(begin, end, what says of which kind it is) of the base64 whose URL or key opens at `at`."""
    url = _URL.match(blob, at)
    head = url or _KEY.match(blob, at)
    if head is None:
        return None
    begin = head.end()
    end = blob.find(b'"', begin)
    if end < 0 or blob[begin:end].translate(None, _ALPHABET):
        return None
    kind = _kind_of_source(blob, at, end) if url is None else _kind_of_url(blob, at, url[1])
    return None if kind is None else (begin, end, kind)


def _kind_of_url(blob: bytes, at: int, media_type: bytes) -> bytes | None:
    return media_type if _URL_KEY.search(blob[max(0, at - _NEAR_BYTES) : at]) else None


def _kind_of_source(blob: bytes, at: int, end: int) -> bytes | None:
    """The other fields of the object around the data; None where it is no source."""
    opened = blob.rfind(b"{", max(0, at - _NEAR_BYTES), at)
    closed = blob.find(b"}", end, end + _NEAR_BYTES)
    if opened < 0 or closed < 0:
        return None
    beside = blob[opened:at] + blob[end:closed]
    if b'"base64"' in beside:
        return beside
    return b"audio/" if _SOUND_KEY.search(blob[max(0, opened - _NEAR_BYTES) : opened]) else None


def _tokens_of(kind: bytes, size_bytes: int) -> int:
    if b"audio/" in kind:
        return -(-size_bytes // SOUND_BYTES_PER_TOKEN)
    if b"application/" in kind:
        return -(-size_bytes // PAGE_BYTES) * PAGE_TOKENS
    return IMAGE_TOKENS
