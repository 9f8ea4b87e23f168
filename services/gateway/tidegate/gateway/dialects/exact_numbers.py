"""JSON whose numbers keep their digits, where parsing would round or respell them. Pure."""

import json
import re
from typing import Any

import msgspec
import orjson

_ODD = re.compile(rb"[0-9][.eE]|-0|[0-9]{16}")
_MOST_DIGITS = 15
_NOTHING = msgspec.Raw()


class _Block(msgspec.Struct):
    type: Any = None
    input: msgspec.Raw = _NOTHING


class _Turn(msgspec.Struct):
    content: list[_Block] | str | None = None


class _Conversation(msgspec.Struct):
    messages: list[_Turn] = []


_turn = msgspec.json.Decoder(_Turn)
_conversation = msgspec.json.Decoder(_Conversation)


def parsed(text: bytes | str) -> Any:
    """As `orjson.loads`, which has no numbers beyond 1e308: they stay as they are written."""
    try:
        return orjson.loads(text)
    except orjson.JSONDecodeError as error:
        value = _exact(text) if "infinity" in error.msg else None
        if value is None:
            raise
        return value


def exactly(text: bytes | str) -> Any:
    """The value of JSON; numbers that an int or float would not give back are fragments, for orjson to write. Raises
    orjson.JSONDecodeError."""
    value = parsed(text)
    if _ODD.search(text.encode("utf-8", "replace") if isinstance(text, str) else text) is None:
        return value
    exact = _exact(text)
    return value if exact is None else exact


def restore_conversation(body: dict[str, Any], raw: bytes) -> None:
    """Give the inputs of tools in a request for an Anthropic message, parsed from `raw`, their numbers as written."""
    if b'"tool_use"' in raw:
        try:
            found = _conversation.decode(raw)
        except (msgspec.DecodeError, RecursionError):  # what is wrong with it the reader says
            return
        for turn, seen in zip(body.get("messages") or (), found.messages, strict=True):
            _restore(turn.get("content"), seen)


def restore_answer(body: dict[str, Any], raw: bytes) -> None:
    """The same for a whole answer."""
    if b'"tool_use"' in raw:
        try:
            found = _turn.decode(raw)
        except (msgspec.DecodeError, RecursionError):
            return
        _restore(body.get("content"), found)


def _restore(content: Any, seen: _Turn) -> None:
    if isinstance(content, list) and isinstance(seen.content, list):
        for block, told in zip(content, seen.content, strict=True):
            text = bytes(told.input)
            if told.type == "tool_use" and _ODD.search(text):
                block["input"] = exactly(text)


def _exact(text: bytes | str) -> Any:
    """None for what orjson cannot read for another reason, and beyond the depth that is read here."""
    try:
        plain = text if isinstance(text, str) else text.decode()
        value = json.loads(plain, parse_float=_fragment, parse_int=_whole, parse_constant=_refused)
        orjson.dumps(value)  # halves of surrogates
    except (ValueError, TypeError, RecursionError):
        return None
    return value


def _whole(digits: str) -> Any:
    return _fragment(digits) if len(digits) > _MOST_DIGITS or digits == "-0" else int(digits)


def _fragment(digits: str) -> Any:
    return orjson.Fragment(digits)


def _refused(name: str) -> Any:
    raise ValueError(f"{name} is no JSON")
