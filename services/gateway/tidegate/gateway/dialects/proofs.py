"""What only its provider can read: signatures, sealed reasoning, item ids; told apart by digests. Pure."""

import re
from hashlib import blake2b

from tidegate.gateway.dialects.blocks import Wire

_DIGEST_BYTES = 16
_SHORTEST = b"{8,}"
_SIGNATURE = re.compile(rb'"(?:thought_)?signature"\s*+:\s*+"([^"\\]' + _SHORTEST + b')"')
_DATA = re.compile(rb'"data"\s*+:\s*+"([^"\\]' + _SHORTEST + b')"')
_ITEM = re.compile(rb'"(?:id|encrypted_content)"\s*+:\s*+"([^"\\]++)"')
"""Text cannot forge one: inside a JSON string quotes are escaped. What has an escape itself is not found."""


def found(client: Wire, json: bytes) -> list[bytes]:
    """The digests of all that stands in a request, an answer or events of a client's dialect."""
    texts = _texts(client, json)
    return [blake2b(text, digest_size=_DIGEST_BYTES).digest() for text in texts] if texts else texts


def _texts(client: Wire, json: bytes) -> list[bytes]:
    if client == "openai-responses":
        return _ITEM.findall(json) if b'"id"' in json or b'"encrypted_content"' in json else []
    texts = _SIGNATURE.findall(json) if b"signature" in json else []
    sealed = b"redacted_thinking" if client == "anthropic" else b"reasoning.encrypted"
    return texts + _DATA.findall(json) if sealed in json else texts
