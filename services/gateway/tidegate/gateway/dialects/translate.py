"""The whole of translation in five calls: request, answer, error, stream, and what may be said to whom."""

from collections.abc import Mapping
from typing import Any

import msgspec


class Turns(msgspec.Struct, frozen=True):
    """Which provider produced each assistant turn of a conversation.

    `provider`: who is asked now. `produced_by`: one name per assistant turn in order (consecutive assistant
    messages or items are one turn); None, or a turn beyond the end, is unknown. Unknown turns keep what they
    have unless `keep_unknown` is false.
    """

    provider: str = ""
    produced_by: tuple[str | None, ...] = ()
    keep_unknown: bool = True


class Context(msgspec.Struct, frozen=True, kw_only=True):
    """What the answer's translation must know of its request.

    `created_s` (Unix seconds), `answer_id` and `model` are used where the upstream gives none. `tool_names` maps
    upstream tool names back to the client's; `custom_tools` are those that take free text. `echo` holds fields
    the client's dialect repeats in its answers.
    """

    model: str = ""
    answer_id: str = ""
    created_s: int = 0
    wants_usage: bool = True
    tool_names: Mapping[str, str] = {}
    custom_tools: frozenset[str] = frozenset()
    echo: Mapping[str, Any] = {}


class Translated(msgspec.Struct, frozen=True):
    """A request for the upstream: `body` is compact JSON in a fixed order of names; `warnings` are the names of
    the client's fields that were left out (plain ASCII, for a warning header)."""

    body: bytes
    warnings: tuple[str, ...]
    context: Context


# Signatures agreed on here; the bodies follow module by module.
#
# def request(client: Wire, upstream: Wire, body: Mapping[str, Any], *, model: str, quirks: Quirks = PLAIN,
#             turns: Turns = Turns(), created_s: int = 0, answer_id: str = "") -> Translated
#     `body`: the client's parsed JSON object. `model`: the upstream's name of the model. Also for
#     client == upstream: unknown fields then pass, only quirks and the history are applied.
#     Raises RequestRefused (400 request_incompatible; `.field`, `.reason`).
#
# def answer(client: Wire, upstream: Wire, body: bytes, context: Context) -> bytes
#     A whole upstream answer (status 2xx) in the client's dialect. Raises AnswerMalformed.
#
# def error(client: Wire, status: int, body: bytes, *, code: str) -> bytes
#     A provider's error body (any dialect, any shape) as the client's error envelope.
#
# stream.TranslatedPhases(upstream, client, context, *, quirks=PLAIN): a drop-in for phases.StreamPhases:
#     feed(data) -> Step, end() -> Step, .tokens, .model, .committed, .content_events;
#     and error_event(code, message, status) -> bytes for a stream that has begun.
# stream.StreamTranslator(upstream, client, context, quirks): feed(unit) -> Step for one whole SSE unit.
