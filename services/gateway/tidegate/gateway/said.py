"""How much a model has said in the events of a stream, for streams that end without their usage. Pure."""

import re
from collections.abc import Callable, Iterator
from typing import Any

import orjson

from tidegate.events.types import Dialect
from tidegate.gateway.sse import parse_unit, split_units

BYTES_PER_TOKEN = 4

_GAP = rb"\s*+"
_COLON, _COMMA = _GAP + b":" + _GAP, _GAP + b"," + _GAP
_ESCAPED = rb'(?:(?<=[^\\]\\)|(?<=[^\\]\\{3})|(?<=[^\\]\\{5})|(?<=[^\\]\\{7}))"'
# "Anything but a quote" runs at memory speed, fifteen times as fast as any set of two bytes.
_STRING = rb'"([^"]*+(?:' + _ESCAPED + rb'[^"]*+)*)"'
_WORD = rb'"[^"\\]*+"'
_NOTHING = rb'"[a-z_]++"' + _COLON + rb'(?:null|""|\[\]|"assistant")'
_OF_CALL = rb'"(?:index|id|type)"' + _COLON + rb"(?:\d++|null|" + _WORD + b")"
_CALL = (
    rb'"(tool_calls)"' + _COLON + rb"\[" + _GAP + rb"\{" + _GAP + b"(?:" + _OF_CALL + _COMMA + b")*"
    rb'"function"' + _COLON + rb"\{" + _GAP
    + b'(?:"name"' + _COLON + b"(?:null|" + _WORD + b")" + _COMMA + b')?"arguments"' + _COLON
)  # fmt: skip
_CALL_END = _GAP + rb"\}(?:" + _COMMA + _OF_CALL + b")*" + _GAP + rb"\}" + _GAP + rb"\]"

_CHAT_USUAL = re.compile(
    rb'"delta": ?\{(?:"role": ?"assistant", ?)?"(?:reasoning_)?content": ?"([^"]*+)(?<!\\)"\}'
)
"""As most chunks are spelled."""

_CHAT = re.compile(
    rb'"delta"' + _COLON + rb"\{" + _GAP + b"(?:" + _NOTHING + _COMMA + b")*"
    b'(?:(?:"(?:content|reasoning_content|reasoning|refusal)"' + _COLON + b"|" + _CALL + b")"
    + _STRING + b"(" + _CALL_END + b")?)?"
    b"(?:" + _GAP + b",?" + _GAP + _NOTHING + b")*" + _GAP + rb"(\}|,?\"reasoning_details\"|)"
)  # fmt: skip
"""A delta: its first text, and its end where that is all it says, as it nearly always is. Details of reasoning
repeat what stands before them.

Text cannot forge one: inside a JSON string quotes are escaped.
"""

_MESSAGES = re.compile(
    rb'"delta"' + _COLON + rb"\{" + _GAP + b'(?:"type"' + _COLON + rb'"[a-z_]++"' + _COMMA + b")?"
    rb'"(?:text|thinking|partial_json)"' + _COLON + _STRING
)  # fmt: skip
"""Signatures and citations are no output that is billed."""

_RESPONSES = re.compile(rb'"delta"' + _COLON + _STRING)
_SOUND = b'audio.delta"'
_OPENED, _ITEM = b'"content_block_start"', b'"response.output_item.done"'


def produced_tokens(events: int, said_bytes: int, limit: int | None) -> int:
    """Estimate of the output tokens of a stream that did not tell them.

    One event is one token where the provider streams token by token; where it sends many at once, the bytes of
    what was said tell more. `limit`: as many as an answer may have, None where nothing bounds it.
    """
    by_size = -(-said_bytes // BYTES_PER_TOKEN)
    return max(events, by_size if limit is None else min(by_size, limit))


class Said:
    """What one stream has said so far."""

    __slots__ = ("_has_items", "_in_block", "_in_deltas", "_in_items")

    def __init__(self, dialect: Dialect) -> None:
        self._in_block = IN_BLOCK[dialect]
        self._has_items = dialect == "openai-responses"
        self._in_deltas = 0
        self._in_items = 0

    def add(self, block: bytes) -> None:
        """Take whole events; the sum does not depend on how they were put into blocks."""
        self._in_deltas += self._in_block(block)
        if self._has_items and _ITEM in block:
            self._in_items += sum(map(_in_item, split_units(block)))

    @property
    def size_bytes(self) -> int:
        """Bytes of text, thinking and tool arguments, as JSON; of sound and pictures none.

        A response's items repeat what their deltas said, but some vendors send items whole, without any.
        """
        return max(self._in_deltas, self._in_items)


def size_of(dialect: Dialect, answer: dict[str, Any]) -> int:
    """What `Said` counts, of a whole answer: signatures, sealed reasoning, sound and probabilities are no words."""
    if dialect == "openai-responses":
        return sum(map(_in_output, _objects(answer.get("output"))))
    if dialect == "anthropic":
        return sum(map(_in_content, _objects(answer.get("content"))))
    choices = _objects(answer.get("choices"))
    return sum(sum(map(_json_size, _texts(choice.get("message")))) for choice in choices)


def is_plausible(output: int | None, events: int, said_bytes: int) -> bool:
    """Can a count that came before the answer be the count of all of it? Estimates may be off by a factor of two."""
    return output is not None and 2 * output >= produced_tokens(events, said_bytes, None)


def _in_chat(block: bytes) -> int:
    texts = _plain_texts(block)
    return sum(map(_in_chunk, split_units(block))) if texts is None else _size(texts, block)


def _plain_texts(block: bytes) -> list[bytes] | None:
    """The texts of chunks whose deltas say one thing each; None where any says more, or says it in another way."""
    deltas = block.count(b'"delta"')
    usual = _CHAT_USUAL.findall(block)
    if len(usual) == deltas:
        return usual
    found = _CHAT.findall(block)
    if len(found) != deltas:
        return None
    texts = [
        text
        for call, text, closed, end in found
        if bool(call) == bool(closed) and (end == b"}" or (end and text))
    ]
    return texts if len(texts) == deltas else None


def _in_messages(block: bytes) -> int:
    size = _by_pattern(_MESSAGES, block)
    return size + sum(map(_in_opened, split_units(block))) if _OPENED in block else size


def _in_opened(unit: bytes) -> int:
    """A block that opens with words, or with the whole input of a tool. Results of tools are no output."""
    block = _object_of(unit).get("content_block") if _OPENED in unit else None
    return _in_content(block) if isinstance(block, dict) else 0


def _in_content(block: dict[str, Any]) -> int:
    """A block of a message. The input of a tool counts as the JSON text that deltas bring it in."""
    given = block.get("input")
    texts = [block.get("text"), block.get("thinking"), orjson.dumps(given).decode() if given else None]
    return sum(map(_json_size, texts))


def _in_item(unit: bytes) -> int:
    """An item of a response that is done."""
    item = _object_of(unit).get("item") if _ITEM in unit else None
    return _in_output(item) if isinstance(item, dict) else 0


def _in_output(item: dict[str, Any]) -> int:
    parts = (*_objects(item.get("content")), *_objects(item.get("summary")))
    texts = [item.get(name) for name in ("arguments", "input", "code")]
    texts += [part.get("text") or part.get("refusal") or part.get("transcript") for part in parts]
    return sum(map(_json_size, texts))


def _in_responses(block: bytes) -> int:
    if _SOUND in block:  # its delta is base64
        return sum(_in_responses(unit) for unit in split_units(block) if _SOUND not in unit)
    return _by_pattern(_RESPONSES, block)


def _by_pattern(pattern: re.Pattern[bytes], block: bytes) -> int:
    found = pattern.findall(block)
    if len(found) == block.count(b'"delta"'):
        return _size(found, block)
    # Deltas of other kinds, or an event that is spread over several lines.
    events = (parse_unit(unit)[1] or b"" for unit in split_units(block))
    return sum(_size(pattern.findall(event), event) for event in events)


IN_BLOCK: dict[Dialect, Callable[[bytes], int]] = {
    "openai": _in_chat,
    "anthropic": _in_messages,
    "openai-responses": _in_responses,
}
"""Bytes of what the deltas in whole events of a dialect say."""


def _size(found: list[bytes], block: bytes) -> int:
    """Letters count as UTF-8 has them, also where all but ASCII was sent as escapes."""
    if b"\\" in block and b"\\u" in block:
        return sum(map(_size_decoded, found))
    return sum(map(len, found))


def _size_decoded(string: bytes) -> int:
    if b"\\u" not in string:
        return len(string)
    try:
        return _json_size(orjson.loads(b'"%b"' % string))
    except orjson.JSONDecodeError:  # half a pair of surrogates
        return len(string)


def _json_size(text: Any) -> int:
    return len(orjson.dumps(text)) - 2 if isinstance(text, str) else 0


def _in_chunk(unit: bytes) -> int:
    """The same of one event whose deltas say several things at once, or in another way."""
    texts = _plain_texts(unit)
    if texts is not None:
        return _size(texts, unit)
    choices = _object_of(unit).get("choices")
    return sum(sum(map(_json_size, _texts(choice.get("delta")))) for choice in _objects(choices))


def _object_of(unit: bytes) -> dict[str, Any]:
    """The JSON object of an event, empty where it has none."""
    try:
        value = orjson.loads(parse_unit(unit)[1] or b"")
    except orjson.JSONDecodeError:
        return {}
    return value if isinstance(value, dict) else {}


def _texts(delta: Any) -> Iterator[Any]:
    """All that one delta says: each thing once, though reasoning may stand in several fields."""
    if not isinstance(delta, dict):
        return
    yield delta.get("refusal")
    content = delta.get("content")
    yield content
    for part in _objects(content):
        yield part.get("text")
        yield from (inner.get("text") for inner in _objects(part.get("thinking")))
    thought = delta.get("reasoning_content") or delta.get("reasoning")
    yield thought
    if not thought:
        for detail in _objects(delta.get("reasoning_details")):
            yield detail.get("text") or detail.get("summary")
    for call in (*_objects(delta.get("tool_calls")), {"function": delta.get("function_call")}):
        for inner in _objects([call.get("function"), call.get("custom")]):
            yield inner.get("arguments") or inner.get("input")
    for sound in _objects([delta.get("audio")]):
        yield sound.get("transcript")


def _objects(value: Any) -> Iterator[dict[str, Any]]:
    if isinstance(value, list):
        yield from (each for each in value if isinstance(each, dict))
