"""What a request body asks for, whatever its dialect, and the refusal that answers a bad one."""

import hashlib
from collections.abc import Iterator
from typing import Any, NamedTuple

import orjson

PLACEHOLDER_BYTES = 1024


class Refusal(Exception):
    """An error answer before any content.

    `code` and `kind` replace what the dialect derives from the status; `unit` is that of a limit that was hit.
    """

    def __init__(
        self,
        status: int,
        message: str,
        *,
        code: str | None = None,
        kind: str | None = None,
        param: str | None = None,
        unit: str | None = None,
        retry_after: str | None = None,
    ) -> None:
        super().__init__(message)
        self.status = status
        self.message = message
        self.code = code
        self.kind = kind
        self.param = param
        self.unit = unit
        self.retry_after = retry_after


class Mark(NamedTuple):
    """A cache breakpoint: the prompt up to this byte is to be kept for an hour, or for the short lifetime."""

    end_byte: int
    hour: bool


class Ask(NamedTuple):
    """A parsed request: `model` as sent, `name` without the fault behind '!', `prompt` as counted."""

    model: str
    name: str
    fault: str | None
    stream: bool
    show_usage: bool
    output_cap: int | None
    prompt: bytes
    marks: tuple[Mark, ...]
    tools: tuple[str, ...]


def invalid(message: str, param: str | None = None) -> Refusal:
    """A 400 that names the field."""
    return Refusal(400, message, param=param)


def read_json(body: bytes) -> dict[str, Any]:
    """The body as an object. Raises Refusal 400."""
    try:
        value = orjson.loads(body)
    except orjson.JSONDecodeError as error:
        raise invalid(f"We could not parse the JSON body of your request: {error}") from error
    if not isinstance(value, dict):
        raise invalid("The body of your request must be a JSON object.")
    return value


def split_model(body: dict[str, Any]) -> tuple[str, str, str | None]:
    """The model as sent, its name, and the fault behind the first '!'."""
    model = body.get("model")
    if not isinstance(model, str) or not model:
        raise invalid("you must provide a model parameter", "model")
    name, bang, fault = model.partition("!")
    return model, name, fault if bang else None


def flag(body: dict[str, Any], name: str) -> bool:
    """An optional boolean. Raises Refusal 400 for anything else."""
    value = body.get(name)
    if value is None or isinstance(value, bool):
        return bool(value)
    raise invalid(f"'{name}' must be a boolean", name)


def positive(body: dict[str, Any], name: str) -> int | None:
    """An optional integer of at least 1. Raises Refusal 400 for anything else."""
    value = body.get(name)
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        raise invalid(f"'{name}' must be an integer of at least 1", name)
    return value


def objects(body: dict[str, Any], name: str) -> list[dict[str, Any]]:
    """An optional list of objects. Raises Refusal 400 for anything else."""
    value = body.get(name)
    if value is None:
        return []
    if not isinstance(value, list) or not all(isinstance(entry, dict) for entry in value):
        raise invalid(f"'{name}' must be a list of objects", name)
    return value


def messages(body: dict[str, Any], roles: frozenset[str]) -> list[dict[str, Any]]:
    """The conversation: at least one message, known roles only. Raises Refusal 400."""
    found = objects(body, "messages")
    if not found:
        raise invalid("'messages' must not be empty", "messages")
    for place, message in enumerate(found):
        if message.get("role") not in roles:
            raise invalid(f"messages[{place}].role must be one of {', '.join(sorted(roles))}", "messages")
    return found


def compact(value: Any) -> bytes:
    """Structured content (tools, calls, results) counts as its compact JSON."""
    return orjson.dumps(value)


def placeholder(part: dict[str, Any]) -> bytes:
    """Images and files count as 1,024 bytes that differ with their content."""
    return hashlib.sha256(compact(part)).digest() * (PLACEHOLDER_BYTES // 32)


def texts(parts: Any, where: str) -> Iterator[bytes]:
    """The bytes of `content` when it is absent or a string. Raises Refusal 400 for other types."""
    if isinstance(parts, str):
        yield parts.encode("utf-8", "surrogatepass")
    elif parts is not None:
        raise invalid(f"{where}.content must be a string or a list of parts", "messages")
