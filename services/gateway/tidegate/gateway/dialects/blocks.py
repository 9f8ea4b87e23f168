"""The content model all dialects are read into and written from: requests and answers made of ordered blocks."""

from typing import Any, Literal

import msgspec

from tidegate.events.money import Tokens

Wire = Literal["openai", "anthropic", "openai-responses"]
"""What is spoken on the wire: OpenAI chat completions, Anthropic messages, OpenAI responses."""

Role = Literal["system", "developer", "user", "assistant"]
Stop = Literal["end", "stop_sequence", "length", "context_full", "tool_use", "refusal", "pause"]
"""Why an answer ended; `refusal` stands for the provider's filters too."""

Effort = Literal["none", "minimal", "low", "medium", "high", "xhigh", "max"]
CacheMark = dict[str, Any]
"""Anthropic's `cache_control` object, as the client wrote it."""


class Text(msgspec.Struct, frozen=True):
    """Plain text."""

    text: str
    cache: CacheMark | None = None


class Refusal(msgspec.Struct, frozen=True):
    """The words of a model that declined."""

    text: str


class Image(msgspec.Struct, frozen=True):
    """A picture: by `url`, or as base64 `data` of `media_type`."""

    url: str | None = None
    media_type: str = ""
    data: str = ""
    detail: str | None = None
    cache: CacheMark | None = None


class Document(msgspec.Struct, frozen=True):
    """A file: by `url`, as base64 `data` of `media_type`, or as plain `text`."""

    url: str | None = None
    media_type: str = ""
    data: str = ""
    text: str | None = None
    title: str | None = None
    context: str | None = None
    """What the client says of a plain text beside it."""
    cache: CacheMark | None = None


class Thinking(msgspec.Struct, frozen=True):
    """Reasoning: its readable text, and what proves or hides it, byte for byte.

    `signature` belongs to readable text; `redacted` replaces it; `encrypted` is OpenAI's sealed reasoning, with
    the `id` of its item. No other provider than the one that made them can read them.
    """

    text: str = ""
    signature: str | None = None
    redacted: str | None = None
    encrypted: str | None = None
    id: str | None = None


class ToolCall(msgspec.Struct, frozen=True):
    """A call of a tool. `arguments` is JSON text, or free text for a custom tool."""

    id: str
    name: str
    arguments: str
    is_custom: bool = False
    cache: CacheMark | None = None


class ToolResult(msgspec.Struct, frozen=True):
    """What a tool answered, as text, images and documents."""

    call_id: str
    content: "tuple[Text | Image | Document, ...]" = ()
    is_error: bool = False
    is_custom: bool = False
    cache: CacheMark | None = None


Block = Text | Refusal | Image | Document | Thinking | ToolCall | ToolResult


class Message(msgspec.Struct, frozen=True):
    """One turn, or a part of one. Tool results stand in `user` messages."""

    role: Role
    blocks: tuple[Block, ...]


class Tool(msgspec.Struct, frozen=True):
    """A tool the model may call: a function with a JSON schema, or a custom one that takes free text.

    `format` is the grammar of a custom tool's text.
    """

    name: str
    description: str | None = None
    schema: dict[str, Any] | None = None
    strict: bool | None = None
    is_custom: bool = False
    format: dict[str, Any] | None = None
    cache: CacheMark | None = None


class ToolChoice(msgspec.Struct, frozen=True):
    """Which tool must be called; `name` only with `named`."""

    kind: Literal["auto", "none", "required", "named"]
    name: str = ""
    allowed: tuple[str, ...] | None = None
    """With `auto` and `required`, the only tools that may be called; None: all."""


class OutputFormat(msgspec.Struct, frozen=True):
    """Structured output: a JSON schema, or any JSON object when `schema` is None."""

    schema: dict[str, Any] | None = None
    name: str = "answer"
    description: str | None = None
    strict: bool | None = None


class Reasoning(msgspec.Struct, frozen=True):
    """How much to think. `budget_tokens` where the client gave one; `summary` when it wants to read along."""

    effort: Effort | None = None
    budget_tokens: int | None = None
    is_adaptive: bool = False
    summary: str | None = None


class Sampling(msgspec.Struct, frozen=True):
    """Numbers passed on as they are; None = the client said nothing."""

    temperature: float | None = None
    top_p: float | None = None
    top_k: int | None = None
    frequency_penalty: float | None = None
    presence_penalty: float | None = None
    seed: int | None = None


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """A request in no dialect. `system` holds the instructions before the first turn."""

    system: tuple[Text, ...] = ()
    messages: tuple[Message, ...] = ()
    tools: tuple[Tool, ...] = ()
    tool_choice: ToolChoice | None = None
    parallel_tools: bool | None = None
    output: OutputFormat | None = None
    verbosity: str | None = None
    sampling: Sampling = Sampling()
    max_output_tokens: int | None = None
    stop: tuple[str, ...] = ()
    reasoning: Reasoning | None = None
    user: str | None = None
    metadata: dict[str, Any] | None = None
    cache_key: str | None = None
    cache_retention: str | None = None
    """How long OpenAI is to keep the prompt's prefix."""
    service_tier: str | None = None
    cache: CacheMark | None = None
    stream: bool = False


AnswerBlock = Text | Refusal | Thinking | ToolCall
EMPTY: tuple[AnswerBlock, ...] = (Text(""), Refusal(""), Thinking())
"""Blocks that say nothing and prove nothing: no dialect wants them in an answer."""


class Answer(msgspec.Struct, frozen=True, kw_only=True):
    """A whole answer in no dialect; empty `id` or `model` and `created_s` None = the upstream named none."""

    id: str = ""
    model: str = ""
    created_s: int | None = None
    blocks: tuple[AnswerBlock, ...] = ()
    stop: Stop = "end"
    stop_sequence: str | None = None
    tokens: Tokens = Tokens()
    service_tier: str | None = None
    """How it was served, in the words of `tiers`."""
