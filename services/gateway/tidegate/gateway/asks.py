"""Chat and messages bodies → the scalars the planner needs; text is measured and goes no further. Pure."""

from collections.abc import Iterator
from typing import Protocol, TypeVar

import msgspec
from msgspec import Raw

from tidegate.events.types import Dialect
from tidegate.gateway import tiers
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.inline_data import MARK as INLINE
from tidegate.gateway.inline_data import inline_data
from tidegate.gateway.remote_media import MARK as REMOTE
from tidegate.gateway.remote_media import remote_media
from tidegate.gateway.stored_media import MARK as STORED
from tidegate.gateway.stored_media import stored_media
from tidegate.gateway.unparsed import ABSENT, StreamOptions, brief
from tidegate.gateway.utf8 import fault_at

_BYTES_PER_TOKEN = 4
MAX_TOKENS = 2**31 - 1
"""Highest bound on output that a client may state."""
_IMAGES = (b'"image_url"', b'"image"', b'"input_image"')


class Measured(msgspec.Struct, frozen=True, gc=False):
    """Size of a prompt: an estimate of its tokens, how many of its parts are guesses: files of the provider, and
    how many are documents that are no plain text."""

    tokens: int
    stored_files: int = 0
    documents: int = 0


class Body(Protocol):
    """What matters of a request before the call, in every dialect."""

    model: str
    stream: bool | None
    prompt_cache_key: Raw
    metadata: Raw

    @property
    def max_output_tokens(self) -> int | None:
        """The client's bound on output, None when it gave none."""
        ...

    @property
    def wants_usage_chunk(self) -> bool:
        """Whether a stream may carry usage as an event of its own."""
        ...

    def measured(self) -> Measured:
        """Estimate: bytes of what the model reads ÷ 4, rounded up, and per image, page or second of sound what
        vendors count for it; the provider counts later."""
        ...

    def has_images(self) -> bool:
        """True when a part looks like an image."""
        ...

    def has_tools(self) -> bool:
        """True when tools are offered."""
        ...

    def wants_reasoning(self, dialect: Dialect) -> bool:
        """True when the client explicitly asks for reasoning."""
        ...

    def asked_tier(self, dialect: Dialect) -> str | None:
        """The service tier that the client asks for, None as usual."""
        ...

    def first_user_message(self) -> bytes | None:
        """Raw JSON of the first user message's content: the last resort to tell sessions apart."""
        ...

    def refuse(self) -> None:
        """Raises GatewayError for what the types of its fields do not say."""
        ...


class TurnsBody(msgspec.Struct, gc=False):
    """Fields of a chat or messages body that matter before the call; everything else is passed through."""

    model: str
    messages: Raw
    stream: bool | None = None
    max_tokens: int | None = None
    max_completion_tokens: int | None = None
    system: Raw = ABSENT
    tools: Raw = ABSENT
    stream_options: StreamOptions | None = None
    prompt_cache_key: Raw = ABSENT
    metadata: Raw = ABSENT
    thinking: Raw = ABSENT
    reasoning_effort: Raw = ABSENT
    service_tier: Raw = ABSENT
    speed: Raw = ABSENT

    @property
    def max_output_tokens(self) -> int | None:
        """The client's bound on output, None when it gave none."""
        return self.max_tokens if self.max_completion_tokens is None else self.max_completion_tokens

    @property
    def wants_usage_chunk(self) -> bool:
        """OpenAI streams carry usage only when the client asked."""
        return self.stream_options is not None and self.stream_options.wants_usage

    def measured(self) -> Measured:
        """See Body. What is read are messages, system and tools."""
        return measured(self.messages, len(self.system) + len(self.tools))

    def has_images(self) -> bool:
        """True when a content block looks like an image; a text that quotes one only over-demands."""
        return shows_images(self.messages)

    def has_tools(self) -> bool:
        """True when tools are offered."""
        return len(self.tools) > 2

    def wants_reasoning(self, dialect: Dialect) -> bool:
        """True when the client explicitly asks for reasoning."""
        if dialect == "anthropic":
            thinking = bytes(self.thinking)
            return thinking[:1] == b"{" and b'"disabled"' not in thinking
        return brief(self.reasoning_effort, otherwise=True) not in (None, "none")

    def asked_tier(self, dialect: Dialect) -> str | None:
        """See Body."""
        if self.service_tier is self.speed:  # both absent
            return None
        return tiers.asked(dialect, brief(self.service_tier), brief(self.speed))

    def first_user_message(self) -> bytes | None:
        """See Body."""
        return first_user_turn(self.messages, "messages")

    def refuse(self) -> None:
        """See Body."""
        check_limit(self.max_output_tokens)
        if memoryview(self.messages)[:1].tobytes() != b"[":
            raise GatewayError("body_invalid", "Request body: `messages` must be an array.")


class _Message(msgspec.Struct, gc=False):
    role: str = ""
    content: Raw = ABSENT


FIRST_TURNS = 256
"""How many turns of a long conversation are searched for its first user: there may be as many as it has bytes."""
ALL_TURNS_BELOW_BYTES = 65_536
"""Below, all turns are parsed."""
_FirstTurns = msgspec.defstruct(
    "_FirstTurns",
    [(f"turn_{number}", _Message | None, None) for number in range(FIRST_TURNS)],
    array_like=True,
    gc=False,
)
_messages = msgspec.json.Decoder(list[_Message])
_first_messages = msgspec.json.Decoder(_FirstTurns)
B = TypeVar("B", bound=Body)


def parsed(decoder: msgspec.json.Decoder[B], raw: bytes) -> B:
    """A body, checked. Raises GatewayError(body_invalid) naming what is wrong."""
    try:
        body = decoder.decode(raw)
    except msgspec.ValidationError as error:
        raise GatewayError("body_invalid", f"Request body: {error}.") from error
    except (msgspec.DecodeError, UnicodeDecodeError) as error:
        raise GatewayError("body_invalid", f"Request body is not valid JSON: {error}.") from error
    except RecursionError as error:
        raise GatewayError("body_invalid", "Request body is nested too deep.") from error
    if not body.model:
        raise GatewayError("body_invalid", "Request body: `model` must name a route.")
    fault = fault_at(raw)
    if fault is not None:
        raise GatewayError("body_invalid", f"Request body is not UTF-8: byte {fault}.")
    body.refuse()
    return body


def check_limit(limit: int | None) -> None:
    """Raises GatewayError(body_invalid) for a bound on output that no model can keep or that asks for nothing."""
    if limit is not None and not 1 <= limit <= MAX_TOKENS:
        raise GatewayError("body_invalid", f"Request body: max tokens must be from 1 to {MAX_TOKENS}.")


def tokens_of(size_bytes: int) -> int:
    """Estimate of the tokens in so many bytes of JSON."""
    return -(-size_bytes // _BYTES_PER_TOKEN)


def measured(turns: Raw, others_bytes: int) -> Measured:
    """Size of a conversation and so many bytes of JSON beside it: an image is no text, neither its base64 nor its
    address."""
    blob = bytes(turns)
    if not (INLINE in blob or REMOTE in blob or blob.rfind(STORED) >= 0):
        return Measured(-(-(len(turns) + others_bytes) // _BYTES_PER_TOKEN))
    inline, remote, stored = inline_data(blob), remote_media(blob), stored_media(blob)
    text_tokens = tokens_of(len(turns) - inline.size_bytes - remote.size_bytes + others_bytes)
    return Measured(
        text_tokens + inline.tokens + remote.tokens + stored.tokens,
        stored.parts,
        inline.documents + remote.documents + stored.documents,
    )


def shows_images(turns: Raw) -> bool:
    """True when a content block looks like an image; a text that quotes one only over-demands.

    Five bytes are found fastest, and longer ones from the end: see `remote_media`.
    """
    blob = memoryview(turns).tobytes()
    return b"image" in blob and any(blob.rfind(name) >= 0 for name in _IMAGES)


def first_user_turn(turns: Raw, field: str) -> bytes | None:
    """Raw JSON of the first user turn's content. Raises GatewayError(body_invalid) naming the field."""
    try:
        for message in _messages.decode(turns) if len(turns) < ALL_TURNS_BELOW_BYTES else _first(turns):
            if message.role == "user":
                return memoryview(message.content).tobytes()
    except (msgspec.DecodeError, RecursionError) as error:
        raise GatewayError("body_invalid", f"Request body: `{field}`: {error}.") from error
    return None


def _first(turns: Raw) -> Iterator[_Message]:
    """The first turns of a conversation; what follows is skipped and leaves nothing in memory."""
    found: tuple[_Message | None, ...] = msgspec.structs.astuple(_first_messages.decode(turns))
    return (message for message in found if message is not None)
