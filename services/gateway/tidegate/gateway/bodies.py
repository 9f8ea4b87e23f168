"""Bodies of responses and embeddings → the scalars the planner needs; and the parser of every dialect. Pure."""

import re

import msgspec
from msgspec import Raw

from tidegate.events.types import Dialect
from tidegate.gateway import tiers
from tidegate.gateway.asks import (
    Body,
    Measured,
    TurnsBody,
    check_limit,
    first_user_turn,
    measured,
    parsed,
    shows_images,
    tokens_of,
)
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.unparsed import ABSENT, brief

_ITEM_REFERENCE = b'"item_reference"'
_ITEM_OF_REFERENCE = re.compile(rb'"type"[ \t\r\n]*+:[ \t\r\n]*+"item_reference"')
"""Text cannot look like it: inside a JSON string quotes are escaped."""
_SPELLED = re.compile(
    rb"[ \t\r\n]*+:[ \t\r\n]*+".join(
        b'"%b"' % b"".join(rb"(?:%c|\\u00(?i:%02x))" % (letter, letter) for letter in word)
        for word in (b"type", b"item_reference")
    )
)
"""The same, its letters themselves or escapes of them."""


class _Reasoning(msgspec.Struct, gc=False):
    effort: Raw = ABSENT


_reasoning = msgspec.json.Decoder(_Reasoning)


class ResponsesBody(msgspec.Struct, gc=False):
    """Fields of a responses body that matter before the call; everything else is passed through."""

    model: str
    input: Raw = ABSENT
    instructions: Raw = ABSENT
    tools: Raw = ABSENT
    stream: bool | None = None
    max_output_tokens: int | None = None
    reasoning: Raw = ABSENT
    prompt_cache_key: Raw = ABSENT
    metadata: Raw = ABSENT
    previous_response_id: Raw = ABSENT
    conversation: Raw = ABSENT
    background: Raw = ABSENT
    service_tier: Raw = ABSENT

    @property
    def wants_usage_chunk(self) -> bool:
        """See Body. Usage comes with the terminal event."""
        return True

    def measured(self) -> Measured:
        """See Body."""
        return measured(self.input, len(self.instructions) + len(self.tools))

    def has_images(self) -> bool:
        """See Body."""
        return shows_images(self.input)

    def has_tools(self) -> bool:
        """See Body."""
        return len(self.tools) > 2

    def wants_reasoning(self, dialect: Dialect) -> bool:
        """See Body."""
        if memoryview(self.reasoning)[:1].tobytes() != b"{":
            return False
        return brief(_reasoning.decode(self.reasoning).effort, otherwise=True) not in (None, "none")

    def asked_tier(self, dialect: Dialect) -> str | None:
        """See Body."""
        return tiers.asked(dialect, brief(self.service_tier), None)

    def first_user_message(self) -> bytes | None:
        """See Body."""
        if memoryview(self.input)[:1].tobytes() == b"[":
            return first_user_turn(self.input, "input")
        return memoryview(self.input).tobytes() or None

    def refuse(self) -> None:
        """See Body. What a provider stored is another target's secret, and may be another tenant's: nothing of it
        can be named here."""
        check_limit(self.max_output_tokens)
        for field in ("previous_response_id", "conversation", "background"):
            if brief(getattr(self, field), otherwise=True):
                raise _not_stored(field)
        if memoryview(self.input)[:1].tobytes() not in {b"[", b'"', b""}:
            raise GatewayError("body_invalid", "Request body: `input` must be a string or an array.")
        if _names_an_item(memoryview(self.input).tobytes()):
            raise _not_stored("input")


class EmbeddingsBody(msgspec.Struct, gc=False):
    """Fields of an embeddings body that matter before the call; everything else is passed through."""

    model: str
    input: Raw
    stream: bool | None = None
    prompt_cache_key: Raw = ABSENT
    metadata: Raw = ABSENT

    @property
    def max_output_tokens(self) -> int | None:
        """See Body. Vectors are no tokens."""
        return 0

    @property
    def wants_usage_chunk(self) -> bool:
        """See Body."""
        return False

    def measured(self) -> Measured:
        """Tokens are counted where the client sends tokens, else estimated from bytes."""
        blob = memoryview(self.input).tobytes()
        if blob.lstrip(b"[ \t\r\n")[:1].isdigit():
            return Measured(blob.count(b",") + 1)
        return Measured(tokens_of(len(blob)))

    def has_images(self) -> bool:
        """See Body."""
        return False

    def has_tools(self) -> bool:
        """See Body."""
        return False

    def wants_reasoning(self, dialect: Dialect) -> bool:
        """See Body."""
        return False

    def asked_tier(self, dialect: Dialect) -> str | None:
        """See Body. Vectors are made one way only."""
        return None

    def first_user_message(self) -> bytes | None:
        """See Body. Embedding the same text twice is no conversation."""
        return None

    def refuse(self) -> None:
        """See Body."""
        if self.stream:
            raise GatewayError("body_invalid", "Request body: embeddings have no `stream`.")
        if memoryview(self.input)[:1].tobytes() not in {b"[", b'"'}:
            raise GatewayError("body_invalid", "Request body: `input` must be a string or an array.")


def _names_an_item(blob: bytes) -> bool:
    """Whether an item refers to a stored one. Searched from the end, so long a needle is found five times as fast."""
    if b"\\u00" in blob:
        return _SPELLED.search(blob) is not None
    return blob.rfind(_ITEM_REFERENCE) >= 0 and _ITEM_OF_REFERENCE.search(blob) is not None


def _not_stored(field: str) -> GatewayError:
    return GatewayError(
        "state_unsupported",
        f"`{field}` refers to what a provider would have to keep between requests. This gateway is stateless: "
        "send the whole conversation in `input`.",
        param=field,
    )


_turns = msgspec.json.Decoder(TurnsBody)
_responses = msgspec.json.Decoder(ResponsesBody)
_embeddings = msgspec.json.Decoder(EmbeddingsBody)


def parse_body(raw: bytes, dialect: Dialect) -> Body:
    """The fields of a body. Raises GatewayError naming what is wrong."""
    if dialect == "openai-responses":
        return parsed(_responses, raw)
    if dialect == "openai-embeddings":
        return parsed(_embeddings, raw)
    return parsed(_turns, raw)
