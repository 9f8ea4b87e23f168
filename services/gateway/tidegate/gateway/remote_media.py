"""Images and documents that a body names by URL: what they count for once the provider has fetched them. Pure."""

import re

from tidegate.gateway.inline_data import IMAGE_TOKENS, MAX_LOOKS, NONE, PAGE_TOKENS, InlineData

ANTHROPIC_IMAGE_TOKENS = IMAGE_TOKENS
"""Messages: width × height ÷ 750, images being scaled down to about 1,568 tokens (Anthropic's guide to vision)."""
OPENAI_IMAGE_TOKENS = 1_536
"""Chat completions and responses: at most 1,536 patches of 32 × 32, or 85 + 170 for each of at most 8 tiles of
512 × 512 (OpenAI's guide to images)."""
LOW_DETAIL_TOKENS = 85
"""With `"detail": "low"`, whatever the size (OpenAI's guide to images)."""
DOCUMENT_TOKENS = 5 * PAGE_TOKENS
"""Nothing tells the length of a document that is not here: a declared guess of five pages."""

MARK = b'"http'
"""Five bytes: a longer needle in a long body is searched five times as slowly (CPython changes its way at six)."""
_BEFORE_VALUE = b": \t\r\n"
_KEY = re.compile(rb'"(url|image_url|file_url)"\s*:\s*$')
_OF_CHAT = re.compile(rb'"image_url"\s*:\s*\{[^{}]*$')
_OF_SOURCE = re.compile(rb'"source"\s*:\s*\{[^{}]*$')
_LOW = re.compile(rb'"detail"\s*:\s*"low"')
_NEAR_BYTES = 160
"""How far from the URL the key and the other fields of its object may stand."""


def remote_media(blob: bytes) -> InlineData:
    """The URLs in a conversation (JSON text) that a provider fetches: their bytes, and the tokens of what is there.

    URLs elsewhere are text, and what stands behind `MAX_LOOKS` values that begin like one.
    """
    at = blob.find(MARK)
    if at < 0:
        return NONE
    size = tokens = documents = looks = 0
    while at >= 0 and looks < MAX_LOOKS:
        looks += 1
        end = blob.find(b'"', at + 1)
        if end < 0:
            break
        if blob[at - 1] in _BEFORE_VALUE and (found := _tokens_at(blob, at, end)):
            size += end - at - 1
            tokens += found
            documents += found == DOCUMENT_TOKENS
        at = blob.find(MARK, end)
    return InlineData(size, tokens, documents)


def _tokens_at(blob: bytes, at: int, end: int) -> int:
    """Tokens of what the string from `at` to `end` names; 0 where it is only text."""
    before = blob[max(0, at - _NEAR_BYTES) : at]
    key = _KEY.search(before)
    if key is None:
        return 0
    if key[1] == b"file_url":
        return DOCUMENT_TOKENS
    outside = before[: key.start()]
    if key[1] == b"image_url" or _OF_CHAT.search(outside):
        return LOW_DETAIL_TOKENS if _is_low(blob, outside, end) else OPENAI_IMAGE_TOKENS
    source = _OF_SOURCE.search(outside)
    if source is None:
        return 0
    block = outside[outside.rfind(b"{", 0, source.start()) + 1 : source.start()] + _rest(blob, end, objects=2)
    return DOCUMENT_TOKENS if b'"document"' in block else ANTHROPIC_IMAGE_TOKENS


def _is_low(blob: bytes, outside: bytes, end: int) -> bool:
    """Whether the object around the URL asks for an image of few pixels."""
    return _LOW.search(outside[outside.rfind(b"{") + 1 :] + _rest(blob, end, objects=1)) is not None


def _rest(blob: bytes, end: int, *, objects: int) -> bytes:
    """What follows in the object around a value, or up to the end of that around it."""
    after = blob[end : end + _NEAR_BYTES]
    return b"}".join(after.split(b"}", objects)[:objects])
