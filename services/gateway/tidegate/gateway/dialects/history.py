"""History another provider produced: its item ids and signatures are dropped, its words and tool pairs stay."""

from collections.abc import Callable, Collection, Iterator
from typing import Any

import msgspec
import orjson

from tidegate.gateway.dialects import proofs
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import Notes, RequestRefused

_Json = dict[str, Any]


class Trust(msgspec.Struct, frozen=True):
    """What of a conversation a provider can be told, by the digests of `proofs`.

    `provider`: who is asked now. Without `own`, a turn in which something `foreign` stands loses all that only its
    provider can read. With it, every turn does in which anything is not `own`.
    """

    provider: str = ""
    foreign: frozenset[bytes] = frozenset()
    own: frozenset[bytes] | None = None

    def is_foreign(self, turn: Collection[bytes]) -> bool:
        """Must another provider have produced this turn, in which these digests were found?"""
        if self.own is None:
            return not self.foreign.isdisjoint(turn)
        return not turn or not self.own.issuperset(turn)


NOBODY = Trust()


def clean(client: Wire, body: _Json, trust: Trust, notes: Notes) -> _Json:
    """The body with its foreign turns cleaned; the same object when there was nothing to drop.

    Pure, on the client's JSON of any of the three dialects; what is not of its form is left for the reader to
    refuse. An item id that occurs twice is dropped the second time, whoever produced it.
    """
    name = "input" if client == "openai-responses" else "messages"
    items = body.get(name)
    if not isinstance(items, list):
        return body
    cleaner = _CLEANERS[client]
    foreign = _foreign_turns(client, items, trust)
    seen: set[str] = set()
    kept: list[Any] = []
    for item, turn in _numbered(items, client):
        if not isinstance(item, dict):
            kept.append(item)
        elif turn in foreign:
            kept += cleaner(item, notes)
        else:
            kept.append(_without_second_id(item, seen, notes) if client == "openai-responses" else item)
    if len(kept) == len(items) and all(new is old for new, old in zip(kept, items, strict=True)):
        return body
    return body | {name: kept}


def _foreign_turns(client: Wire, items: list[Any], trust: Trust) -> set[int]:
    """The numbers of the assistant turns that another provider produced."""
    if trust == NOBODY:
        return set()
    found: dict[int, set[bytes]] = {}
    for item, turn in _numbered(items, client):
        if turn is not None:
            found.setdefault(turn, set()).update(proofs.found(client, _json(item)))
    return {turn for turn, digests in found.items() if trust.is_foreign(digests)}


def _json(item: Any) -> bytes:
    try:
        return orjson.dumps(item)
    except orjson.JSONEncodeError:  # nested too deep: the writer refuses it
        return b""


def _numbered(items: list[Any], client: Wire) -> Iterator[tuple[Any, int | None]]:
    """Each item with the number of the assistant turn it belongs to, None for the other side's."""
    turn, was_assistant = -1, False
    for item in items:
        is_assistant = _is_assistant(item, client)
        turn += is_assistant and not was_assistant
        was_assistant = is_assistant
        yield item, turn if is_assistant else None


def _is_assistant(item: Any, client: Wire) -> bool:
    if not isinstance(item, dict):
        return False
    kind = item.get("type")
    if client != "openai-responses" or kind is None or kind == "message":
        return item.get("role") == "assistant"
    return isinstance(kind, str) and not kind.endswith("_output")


def _clean_messages(message: _Json, notes: Notes) -> list[_Json]:
    """Anthropic: thinking cannot be kept without its proof."""
    content = message.get("content")
    if not isinstance(content, list):
        return [message]
    kept = [block for block in content if not _is_thinking(block)]
    if len(kept) == len(content):
        return [message]
    notes.drop("thinking")
    return [message | {"content": kept}] if kept else []


def _is_thinking(block: Any) -> bool:
    return isinstance(block, dict) and block.get("type") in ("thinking", "redacted_thinking")


def _clean_chat(message: _Json, notes: Notes) -> list[_Json]:
    """Chat completions: readable reasoning stays, what proves or hides it goes."""
    cleaned = _without(message, ("reasoning_details", "extra_content"), notes)
    calls = cleaned.get("tool_calls")
    if isinstance(calls, list):
        kept = [
            _without(call, ("extra_content",), notes) if isinstance(call, dict) else call for call in calls
        ]
        if any(new is not old for new, old in zip(kept, calls, strict=True)):
            cleaned = cleaned | {"tool_calls": kept}
    return [cleaned]


def _clean_item(item: _Json, notes: Notes) -> list[_Json]:
    """Responses: reasoning is sealed for its provider; a reference leads nowhere at another one."""
    if item.get("type") == "reasoning":
        notes.drop("reasoning")
        return []
    if item.get("type") == "item_reference":
        raise RequestRefused("input", "item_reference: nothing is stored here: send the item itself")
    return [_without(item, ("id",), notes)]


def _without(item: _Json, names: tuple[str, ...], notes: Notes) -> _Json:
    found = [name for name in names if item.get(name) is not None]
    if not found:
        return item
    for name in found:
        notes.drop(f"history.{name}")
    return {name: value for name, value in item.items() if name not in found}


def _without_second_id(item: _Json, seen: set[str], notes: Notes) -> _Json:
    item_id = item.get("id")
    if not isinstance(item_id, str) or item.get("type") == "item_reference":
        return item
    if item_id in seen:
        return _without(item, ("id",), notes)
    seen.add(item_id)
    return item


_CLEANERS: dict[Wire, Callable[[_Json, Notes], list[_Json]]] = {
    "anthropic": _clean_messages,
    "openai": _clean_chat,
    "openai-responses": _clean_item,
}
