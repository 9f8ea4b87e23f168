"""Arguments of tool calls: JSON text on one wire, an object on the other, free text for custom tools."""

from typing import Any

import orjson

from tidegate.gateway.dialects import exact_numbers
from tidegate.gateway.dialects.faults import AnswerMalformed

CUSTOM_FIELD = "input"
"""Where the free text of a custom tool stands when it is sent as a function."""
CUSTOM_SCHEMA: dict[str, Any] = {
    "type": "object",
    "properties": {CUSTOM_FIELD: {"type": "string"}},
    "required": [CUSTOM_FIELD],
    "additionalProperties": False,
}
INVALID_FIELD = "INVALID_JSON"
"""Where text that is no JSON object stands in the place of one, as Anthropic advises its own users."""
_CLOSING = {"{": "}", "[": "]"}


def is_whole(text: str) -> bool:
    """Is this JSON complete? More could only be blanks."""
    try:
        exact_numbers.parsed(text)
    except orjson.JSONDecodeError:
        return False
    return True


def to_object(text: str) -> dict[str, Any]:
    """The object in JSON text, numbers as they are written; empty text is an empty object. Raises AnswerMalformed."""
    if not text.strip():
        return {}
    try:
        value = exact_numbers.exactly(text)
    except orjson.JSONDecodeError as error:
        raise AnswerMalformed("arguments of a tool call are not JSON") from error
    if not isinstance(value, dict):
        raise AnswerMalformed("arguments of a tool call are not an object")
    return value


def to_shown_object(text: str) -> dict[str, Any]:
    """The same of what a model wrote, which may be no object: its mistake, which the client's tool answers.

    Text that breaks off gives the members that are whole, as Anthropic's SDKs show a partial input; any other stands
    whole under INVALID_FIELD.
    """
    try:
        return to_object(text)
    except AnswerMalformed as error:
        cause = error.__cause__
        was_cut = isinstance(cause, orjson.JSONDecodeError) and cause.pos >= len(text)
        value = _whole_part(text) if was_cut else None
        return value if isinstance(value, dict) else {INVALID_FIELD: text}


def _whole_part(text: str) -> Any:
    """What a JSON document that was cut off holds in full; None when nothing can be saved."""
    open_brackets: list[str] = []
    saves: list[tuple[int, str]] = []
    in_string = escaped = False
    for at, sign in enumerate(text):
        if in_string:
            escaped, in_string = (sign == "\\" and not escaped), (escaped or sign != '"')
        elif sign == '"':
            in_string = True
        elif sign in _CLOSING:
            open_brackets.append(_CLOSING[sign])
            saves.append((at + 1, "".join(reversed(open_brackets))))
        elif open_brackets and sign == open_brackets[-1]:
            open_brackets.pop()
            saves.append((at + 1, "".join(reversed(open_brackets))))
        elif sign == ",":
            saves.append((at, "".join(reversed(open_brackets))))
    at, closing = saves[-1] if saves else (0, "")
    return exact_numbers.exactly(text[:at] + closing) if is_whole(text[:at] + closing) else None


def as_function(text: str) -> str:
    """Free text of a custom tool as arguments of the function that stands for it."""
    return orjson.dumps({CUSTOM_FIELD: text}).decode()


def as_custom(arguments: str) -> str:
    """The inverse of `as_function`; arguments that do not have its form are the text themselves."""
    try:
        value = orjson.loads(arguments)
    except orjson.JSONDecodeError:
        return arguments
    text = value.get(CUSTOM_FIELD) if isinstance(value, dict) else None
    return text if isinstance(text, str) else arguments
