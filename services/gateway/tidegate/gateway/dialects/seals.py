"""Opaque reasoning of one vendor carried through another's dialect, byte for byte, marked with where it came from."""

from tidegate.gateway.dialects.blocks import Thinking

_MARK = "tidegate:"
_SIGNATURE = f"{_MARK}anthropic:signature:"
_REDACTED = f"{_MARK}anthropic:redacted:"
_ENCRYPTED = f"{_MARK}openai:encrypted:"


def as_encrypted(block: Thinking) -> str | None:
    """What stands in `encrypted_content` of a reasoning item; None when there is nothing to hide."""
    if block.encrypted is not None:
        return block.encrypted
    if block.redacted is not None:
        return _REDACTED + block.redacted
    return None if block.signature is None else _SIGNATURE + block.signature


def from_encrypted(text: str, encrypted: str | None, item_id: str | None) -> Thinking:
    """The inverse of `as_encrypted`, with the readable text beside it."""
    if not encrypted:
        return Thinking(text)
    if encrypted.startswith(_REDACTED):
        return Thinking(text, redacted=encrypted.removeprefix(_REDACTED))
    if encrypted.startswith(_SIGNATURE):
        return Thinking(text, encrypted.removeprefix(_SIGNATURE))
    return Thinking(text, encrypted=encrypted, id=item_id)


def as_signature(block: Thinking) -> str:
    """What stands in `signature` of a thinking block; empty when nothing proves it."""
    if block.encrypted is not None:
        return f"{_ENCRYPTED}{block.id or ''}:{block.encrypted}"
    return block.signature or ""


def from_signature(text: str, signature: str) -> Thinking:
    """The inverse of `as_signature`, with the readable text beside it."""
    if not signature.startswith(_ENCRYPTED):
        return Thinking(text, signature or None)
    item_id, _, encrypted = signature.removeprefix(_ENCRYPTED).partition(":")
    return Thinking(text, encrypted=encrypted, id=item_id or None)
