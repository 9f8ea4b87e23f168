"""What a request body asks for, whatever its dialect, and how its fields are read."""

import hashlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import orjson

from tidegate.simulator.refusal import invalid
from tidegate.simulator.transcript import Talk

PLACEHOLDER_BYTES = 1024


class Mark(NamedTuple):
    """A cache breakpoint: the prompt up to this byte is to be kept for an hour, or for the short lifetime."""

    end_byte: int
    hour: bool


class Ask(NamedTuple):
    """A parsed request: `model` as sent, `name` without the fault behind '!', `prompt` as counted.

    `schemas` are those of the tools' arguments; tools in `customs` take free text. `form` is the JSON Schema
    that the answer must fit ({}: any object). `embeds` are the texts to embed, each with its tokens. `echo` are
    fields that the answer repeats; `fields` and `roles` are all that the request uses.
    `service_tier` is the one asked for. `searches`: the provider may search the web.
    `omits_thoughts`: they are to be signed but not shown.
    """

    model: str
    name: str
    fault: str | None
    stream: bool
    show_usage: bool
    output_cap: int | None
    prompt: bytes
    marks: tuple[Mark, ...]
    tools: tuple[str, ...]
    schemas: Mapping[str, Any] = {}
    customs: frozenset[str] = frozenset()
    talk: Talk = Talk()
    form: Mapping[str, Any] | None = None
    stops: tuple[str, ...] = ()
    logprobs: bool = False
    embeds: tuple["Embed", ...] | None = None
    echo: Mapping[str, Any] = {}
    fields: frozenset[str] = frozenset()
    roles: frozenset[str] = frozenset()
    omits_thoughts: bool = False
    service_tier: str | None = None
    searches: bool = False


class Embed(NamedTuple):
    """One input to embed: what it is, as bytes, and how many tokens it counts."""

    data: bytes
    tokens: int


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


def spoken(content: Any) -> str:
    """The text of a tool's result: a string, or the texts of its parts."""
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    return "".join(str(part.get("text", "")) for part in parts if isinstance(part, dict))


def words(fields: dict[str, Any], name: str) -> tuple[str, ...]:
    """An optional string or list of strings. Raises Refusal 400 for anything else."""
    value = fields.get(name)
    if value is None:
        return ()
    found = [value] if isinstance(value, str) else value
    if not isinstance(found, list) or not all(isinstance(entry, str) for entry in found):
        raise invalid(f"'{name}' must be a string or a list of strings", name)
    return tuple(found)


def tier(fields: dict[str, Any]) -> str | None:
    """The service tier that is asked for. Raises Refusal 400 for what is no word."""
    value = fields.get("service_tier")
    if value is None or isinstance(value, str):
        return value
    raise invalid("'service_tier' must be a string", "service_tier")


def is_search(tool: Mapping[str, Any]) -> bool:
    """True for the web search that the provider runs by itself, in any of its versions."""
    return str(tool.get("type")).startswith("web_search")


def echoed(fields: Mapping[str, Any], names: tuple[str, ...]) -> dict[str, Any]:
    """The fields of a request that its answer repeats."""
    return {name: fields[name] for name in names if name in fields}
