"""Opaque reasoning of one vendor carried through another's dialect, byte for byte, marked with where it came from."""

from typing import Any

from tidegate.gateway.dialects.blocks import Thinking, Wire
from tidegate.gateway.dialects.faults import Notes

_NAME = "tidegate"
_MARK = f"{_NAME}:"
OUR_ID = f"_{_NAME}_"
"""Stands in the ids of items that are made here."""
_SIGNATURE = f"{_MARK}anthropic:signature:"
_REDACTED = f"{_MARK}anthropic:redacted:"
_ENCRYPTED = f"{_MARK}openai:encrypted:"
_PLAIN = f"{_MARK}plain:"
"""Thinking that nothing proves: marked, so that no vendor is ever asked to check it."""


def as_encrypted(block: Thinking) -> str:
    """What stands in `encrypted_content` of a reasoning item."""
    if block.encrypted is not None:
        return block.encrypted
    if block.redacted is not None:
        return _REDACTED + block.redacted
    return _PLAIN if block.signature is None else _SIGNATURE + block.signature


def from_encrypted(text: str, encrypted: str | None, item_id: str | None) -> Thinking:
    """The inverse of `as_encrypted`, with the readable text beside it."""
    if not encrypted or encrypted.startswith(_PLAIN):
        return Thinking(text)
    if encrypted.startswith(_REDACTED):
        return Thinking(text, redacted=encrypted.removeprefix(_REDACTED))
    if encrypted.startswith(_SIGNATURE):
        return Thinking(text, encrypted.removeprefix(_SIGNATURE))
    return Thinking(text, encrypted=encrypted, id=item_id)


def as_signature(block: Thinking) -> str:
    """What stands in `signature` of a thinking block."""
    if block.encrypted is not None:
        return f"{_ENCRYPTED}{block.id or ''}:{block.encrypted}"
    return _PLAIN if block.signature is None else block.signature


def from_signature(text: str, signature: str) -> Thinking:
    """The inverse of `as_signature`, with the readable text beside it."""
    if signature.startswith(_PLAIN):
        return Thinking(text)
    if not signature.startswith(_ENCRYPTED):
        return Thinking(text, signature or None)
    item_id, _, encrypted = signature.removeprefix(_ENCRYPTED).partition(":")
    return Thinking(text, encrypted=encrypted, id=item_id or None)


def may_be_in(body: bytes) -> bool:
    """Could a client's body hold anything that was made here? Cheap; without it, its own dialect's provider can
    take the body as it is."""
    return _NAME.encode() in body


def without(wire: Wire, body: dict[str, Any], notes: Notes) -> dict[str, Any]:
    """The body for a provider of the client's own dialect: it must not be asked to check what was made here.

    The same object when there was nothing to take out.
    """
    if wire == "openai":
        return body
    name = "input" if wire == "openai-responses" else "messages"
    items = body.get(name)
    if not isinstance(items, list):
        return body
    kept = [
        new
        for item in items
        if (new := _item_without(item) if wire == "openai-responses" else _turn_without(item)) is not None
    ]
    if len(kept) == len(items) and all(new is old for new, old in zip(kept, items, strict=True)):
        return body
    notes.drop("thinking")
    return body | {name: kept}


def _item_without(item: Any) -> Any:
    if not isinstance(item, dict):
        return item
    if _is_ours(item.get("encrypted_content")):
        return None
    item_id = item.get("id")
    if not isinstance(item_id, str) or OUR_ID not in item_id:
        return item
    return {key: value for key, value in item.items() if key != "id"}


def _turn_without(turn: Any) -> Any:
    content = turn.get("content") if isinstance(turn, dict) else None
    if not isinstance(content, list):
        return turn
    kept = [block for block in content if not (isinstance(block, dict) and _is_ours(block.get("signature")))]
    if len(kept) == len(content):
        return turn
    return turn | {"content": kept} if kept else None


def _is_ours(opaque: Any) -> bool:
    return isinstance(opaque, str) and opaque.startswith(_MARK)
