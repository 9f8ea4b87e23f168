"""The whole of translation in three calls: a request, a whole answer, an error; streams are in `stream`."""

from collections.abc import Callable
from typing import Any

import msgspec
import orjson

from tidegate.gateway import tiers
from tidegate.gateway.dialects import (
    chat_answer,
    chat_reader,
    chat_writer,
    error_shape,
    exact_numbers,
    history,
    messages_answer,
    messages_reader,
    messages_writer,
    pairs,
    responses_answer,
    responses_reader,
    responses_writer,
    same_dialect,
    seals,
    tool_choices,
    tool_loops,
)
from tidegate.gateway.dialects.blocks import Answer, Request, Sampling, Wire
from tidegate.gateway.dialects.faults import AnswerMalformed, Notes, RequestRefused
from tidegate.gateway.dialects.for_client import Context, restored
from tidegate.gateway.dialects.history import NOBODY, Trust
from tidegate.gateway.dialects.names import ToolNames
from tidegate.gateway.dialects.quirks import PLAIN, Quirks
from tidegate.gateway.errors import Code, GatewayError
from tidegate.gateway.usage import tally_of
from tidegate.gateway.usage_rules import UsageRules
from tidegate.gateway.usage_rules import Wire as UsageWire

_READERS: dict[Wire, Callable[[dict[str, Any], Notes], Request]] = {
    "openai": chat_reader.read,
    "anthropic": messages_reader.read,
    "openai-responses": responses_reader.read,
}
_WRITERS = {"openai": chat_writer, "anthropic": messages_writer, "openai-responses": responses_writer}


class Translated(msgspec.Struct, frozen=True):
    """A request for the upstream: `body` is compact JSON in a fixed order of names; `warnings` are the names of
    the client's fields that were left out or changed (plain ASCII, for a warning header). `service_tier` is the one
    that is asked for, None as usual."""

    body: bytes
    warnings: tuple[str, ...]
    context: Context
    service_tier: str | None = None


def request(
    client: Wire,
    upstream: Wire,
    body: dict[str, Any],
    *,
    model: str,
    quirks: Quirks = PLAIN,
    trust: Trust = NOBODY,
    created_s: int = 0,
    answer_id: str = "",
    cache_key: str | None = None,
    usage_rules: UsageRules | None = None,
) -> Translated:
    """`body`: the client's parsed JSON object, not changed. `model`: the upstream's name of the model.

    Also for a client and an upstream of the same dialect: every field passes then, and only the target's quirks
    and the history's origin are applied. `created_s` (Unix seconds) and `answer_id` are for answers that lack
    them. `cache_key` takes the place of the client's own across dialects, and stands where the client could not give
    one. `usage_rules`: see Context. Raises RequestRefused, whose text is safe to show.
    """
    notes = Notes()
    names = ToolNames(_WRITERS[upstream].MAX_NAME_CHARACTERS)
    cleaned = history.clean(client, body, trust, notes)
    custom: frozenset[str] = frozenset()
    if client == upstream:
        cleaned = seals.without(client, cleaned, notes)
        if client == "anthropic":
            cleaned = tool_loops.without_lost_thinking(cleaned, notes)
        written = same_dialect.write(client, cleaned, model, quirks, notes)
    else:
        read = tool_choices.checked(_READERS[client](cleaned, notes))
        if cache_key is not None and (read.cache_key is not None or _takes_cache_key(upstream, quirks)):
            read = msgspec.structs.replace(read, cache_key=cache_key)
        if quirks.no_sampling:
            read = _without_sampling(read, notes)
        if upstream != "openai-responses":  # there each item is told by its id from others
            read = msgspec.structs.replace(read, messages=pairs.side_by_side(read.messages))
        written = _WRITERS[upstream].write(read, model, quirks, names, notes)
        if upstream == "anthropic" or quirks.no_custom_tools:
            custom = frozenset(tool.name for tool in read.tools if tool.is_custom)
    asked = body.get("model")
    context = Context(
        model=asked if isinstance(asked, str) else model,
        answer_id=answer_id,
        created_s=created_s,
        wants_usage=client != "openai" or _asks_for_usage(body),
        tool_names=names.back,
        custom_tools=custom,
        echo=_echo(client, body),
        usage_rules=usage_rules,
    )
    tier = tiers.asked(upstream, written.get("service_tier"), written.get("speed"))
    return Translated(_dumps(written), notes.names(), context, tier)


def _asks_for_usage(body: dict[str, Any]) -> bool:
    options = body.get("stream_options")
    return isinstance(options, dict) and options.get("include_usage") is True


def _takes_cache_key(upstream: Wire, quirks: Quirks) -> bool:
    """Whether a provider surely takes `prompt_cache_key`: of those that speak chat completions some refuse it."""
    return upstream == "openai-responses" or (upstream == "openai" and quirks.cache_key)


def _without_sampling(read: Request, notes: Notes) -> Request:
    for name in Sampling.__struct_fields__:
        if getattr(read.sampling, name) is not None:
            notes.drop(name)
    return msgspec.structs.replace(read, sampling=Sampling())


def _echo(client: Wire, body: dict[str, Any]) -> dict[str, Any]:
    """As JSON: it is held until the answer's end, and as objects values may take twenty times as much."""
    if client != "openai-responses":
        return {}
    return {
        name: orjson.Fragment(_dumps(body[name]))
        for name in responses_answer.ECHOED
        if body.get(name) is not None
    }


def _dumps(body: Any) -> bytes:
    try:
        return orjson.dumps(body)
    except orjson.JSONEncodeError as error:
        raise RequestRefused("body", "is nested too deep, or holds text that is not Unicode") from error


def answer(client: Wire, upstream: Wire, body: bytes, context: Context) -> bytes:
    """A whole upstream answer (a success) in the client's dialect; untouched within the same dialect.

    Raises AnswerMalformed.
    """
    if client == upstream:
        return body
    try:
        parsed = exact_numbers.parsed(body)
    except orjson.JSONDecodeError as error:
        raise AnswerMalformed("the answer is not JSON") from error
    if not isinstance(parsed, dict):
        raise AnswerMalformed("the answer is not a JSON object")
    if upstream == "anthropic":
        exact_numbers.restore_answer(parsed, body)
    try:
        whole = restored(read_answer(upstream, parsed, context), context)
        return orjson.dumps(write_answer(client, whole, context))
    except orjson.JSONEncodeError as error:
        raise AnswerMalformed("the answer is nested too deep") from error


def read_answer(upstream: Wire, body: dict[str, Any], context: Context) -> Answer:
    """A whole answer in no dialect. Raises AnswerMalformed."""
    usage_wire: UsageWire = "anthropic" if upstream == "anthropic" else "openai"
    tally = tally_of(usage_wire, body, context.usage_rules)
    tokens = tally.tokens()
    if upstream == "openai":
        read = chat_answer.read(body, tokens, context.answer_id)
    elif upstream == "anthropic":
        read = messages_answer.read(body, tokens)
    else:
        read = responses_answer.read(body, tokens)
    return msgspec.structs.replace(read, service_tier=tally.told_tier)


def write_answer(client: Wire, whole: Answer, context: Context) -> dict[str, Any]:
    """A whole answer in a client's dialect. Raises AnswerMalformed."""
    if client == "openai":
        return chat_answer.write(whole)
    if client == "anthropic":
        return messages_answer.write(whole)
    return responses_answer.write(whole, context.echo)


def error(client: Wire, code: Code, status: int, upstream_body: bytes) -> bytes:
    """A provider's error body, of any dialect or none, as the client's error envelope."""
    return error_shape.body(
        client, GatewayError(code, error_shape.provider_message(upstream_body), status=status)
    )
