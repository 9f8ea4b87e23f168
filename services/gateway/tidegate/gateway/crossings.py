"""A request put in other dialects, each at most once, for the targets of its route that do not speak its own. Pure."""

from collections.abc import Collection, Mapping
from typing import Any

import msgspec
import orjson

from tidegate.events.types import Dialect
from tidegate.gateway import splice
from tidegate.gateway.dialects import exact_numbers, history, translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import Notes, RequestRefused
from tidegate.gateway.dialects.for_client import Context
from tidegate.gateway.dialects.history import NOBODY, Trust
from tidegate.gateway.dialects.quirks import PLAIN, Quirks
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.unparsed import holds_more_values
from tidegate.gateway.usage_rules import UsageRules

PREFERRED: Mapping[Dialect, tuple[Wire, ...]] = {
    "openai": ("openai-responses", "anthropic"),
    "openai-responses": ("openai", "anthropic"),
    "anthropic": ("openai-responses", "openai"),
    "openai-embeddings": (),
}
"""By client dialect, the dialects it can be put in, best first: responses keep sealed reasoning, chat does not."""
MAX_OBJECTS = 20_000
"""Objects of a body (messages, parts, tools, schemas) that are put in another dialect: some 8 µs each, on the loop."""
MAX_VALUES = 200_000
"""Values of a body that is parsed: as objects they take some 70 bytes each, which may be 24 times their JSON."""
_MODEL = "tidegate"
"""Stands in a translated body until the target is known."""


class Speech(msgspec.Struct, frozen=True):
    """How a target speaks: its dialects and its deviations from them."""

    dialects: tuple[Dialect, ...]
    quirks: Quirks = PLAIN


class Crossed(msgspec.Struct, frozen=True):
    """One translation: the upstream's body around the value of `model`, and what its answer's way back needs.

    Within one dialect only the request is rewritten, to the target's quirks.
    """

    client: Wire
    upstream: Wire
    around_model: splice.Around
    warnings: tuple[str, ...]
    context: Context
    quirks: Quirks = PLAIN
    service_tier: str | None = None
    """The tier that the upstream is asked for, None as usual."""

    @property
    def rewrites_stream(self) -> bool:
        """False where the upstream's stream can reach the client as it is."""
        return self.client != self.upstream or self.quirks.ends_without_done


class Crossings:
    """The translations of one request; made when asked for."""

    __slots__ = (
        "_answer_id",
        "_cache_key",
        "_client",
        "_created_s",
        "_made",
        "_once",
        "_raw",
        "_too_large",
        "refusal",
    )

    def __init__(
        self, client: Wire, raw: bytes, *, created_s: int, answer_id: str, cache_key: str | None = None
    ) -> None:
        """Raises GatewayError(body_invalid) for a body that is no JSON object."""
        self._cache_key = cache_key
        self._client: Wire = client
        self._raw = raw
        self._once: dict[str, Any] | None = None
        self._too_large = f"more than {MAX_VALUES} values" if holds_more_values(raw, MAX_VALUES) else None
        if self._too_large is None:
            self._once = _parsed(client, raw)
            if raw.count(b"{") > MAX_OBJECTS and _holds_more_than(MAX_OBJECTS, self._once):
                self._too_large = f"more than {MAX_OBJECTS} objects"
        self._created_s = created_s
        self._answer_id = answer_id
        self._made: dict[tuple[Wire, Quirks, Trust], Crossed | None] = {}
        self.refusal: RequestRefused | None = None
        """Why the last dialect that was tried cannot say this request."""

    def into(self, upstream: Wire, quirks: Quirks = PLAIN, trust: Trust = NOBODY) -> Crossed | None:
        """The request in a dialect, None where it would lose what it needs."""
        key = upstream, quirks, trust
        if key not in self._made:
            if (
                len(self._raw) >= splice.VIEW_FROM_BYTES
            ):  # one copy is enough: others are made again when asked for
                self._made = {known: made for known, made in self._made.items() if made is None}
            self._made[key] = self._translate(upstream, quirks, trust)
        return self._made[key]

    def differ(self, one: Trust, other: Trust) -> bool:
        """Is the conversation told differently to providers that can be told these parts of it?"""
        if self._too_large:
            return False
        body = self._body()
        try:
            told = (history.clean(self._client, body, trust, Notes()) for trust in (one, other))
            return next(told) != next(told)
        except RequestRefused:
            return False

    def possible(self, dialects: Collection[Dialect]) -> tuple[Wire, ...]:
        """Which of these dialects can say the request, best first."""
        found: tuple[Wire, ...] = tuple(
            wire for wire in PREFERRED[self._client] if wire in dialects and self.into(wire) is not None
        )
        self._once = None
        return found

    def for_target(self, speech: Speech, trust: Trust = NOBODY) -> Crossed | None:
        """The best translation that a target takes; None where it takes the client's own bytes, or nothing.

        What by `trust` is another's loses what only the provider that made it can read.
        """
        is_own = trust == NOBODY and self._is_own(speech)
        wires = (self._client,) if self._client in speech.dialects else PREFERRED[self._client]
        for wire in wires:
            if wire not in speech.dialects or is_own:
                continue
            crossed = self.into(wire, speech.quirks, trust)
            if crossed is not None:
                return crossed
        return None

    def can_tell(self, speech: Speech) -> bool:
        """False when the target's quirks leave no way to say the request; `refusal` then says why."""
        return self._is_own(speech) or self.for_target(speech) is not None

    def _body(self) -> dict[str, Any]:
        """The parsed request. It is there once, and parsed again each further time: while the answer is awaited,
        objects would be held beside their bytes, of which they may take twenty times as much."""
        body, self._once = self._once, None
        return _parsed(self._client, self._raw) if body is None else body

    def _is_own(self, speech: Speech) -> bool:
        return self._client in speech.dialects and speech.quirks == PLAIN

    def _translate(self, upstream: Wire, quirks: Quirks, trust: Trust) -> Crossed | None:
        if self._too_large:
            field = "input" if self._client == "openai-responses" else "messages"
            self.refusal = RequestRefused(field, self._too_large)
            return None
        body = self._body()
        try:
            made = translate.request(
                self._client,
                upstream,
                body,
                model=_MODEL,
                quirks=quirks,
                trust=trust,
                created_s=self._created_s,
                answer_id=self._answer_id,
                cache_key=self._cache_key,
            )
        except RequestRefused as refusal:
            self.refusal = refusal.with_traceback(None)  # whose frames hold the parsed body
            return None
        wants_usage = upstream == self._client == "openai" and body.get("stream") is True
        edit = splice.pieces_around_model if len(made.body) >= splice.VIEW_FROM_BYTES else splice.around_model
        around = edit(made.body, include_usage=wants_usage and not quirks.no_stream_options)
        return Crossed(self._client, upstream, around, made.warnings, made.context, quirks, made.service_tier)


def context_for(crossed: Crossed, rules: UsageRules) -> Context:
    """What an answer's way back needs when the target that gave it reports its usage by these rules."""
    return msgspec.structs.replace(crossed.context, usage_rules=rules)


def crossed_back(crossed: Crossed, answer: bytes, rules: UsageRules) -> bytes:
    """A whole answer in the client's dialect. Raises AnswerMalformed."""
    return translate.answer(crossed.client, crossed.upstream, answer, context_for(crossed, rules))


def _parsed(client: Wire, raw: bytes) -> dict[str, Any]:
    try:
        body = orjson.loads(raw)
    except orjson.JSONDecodeError as error:
        raise GatewayError("body_invalid", f"Request body is not valid JSON: {error}.") from error
    if not isinstance(body, dict):
        raise GatewayError("body_invalid", "Request body: expected an object.")
    if client == "anthropic":
        exact_numbers.restore_conversation(body, raw)
    return body


def _holds_more_than(count: int, body: dict[str, Any]) -> bool:
    """Whether there are more objects in it; looks no further than it must."""
    found, rest = 0, [body]
    while rest:
        each: Any = rest.pop()
        if isinstance(each, dict):
            found += 1
            rest += each.values()
        elif isinstance(each, list):
            rest += each
        if found > count:
            return True
    return False


def crossed_dialects(client: Dialect, spoken: Collection[Collection[Dialect]]) -> tuple[Wire, ...]:
    """The dialects that a request may have to be put in for targets that speak these; empty: all speak its own."""
    others = {dialect for dialects in spoken if client not in dialects for dialect in dialects}
    return tuple(wire for wire in PREFERRED[client] if wire in others)
