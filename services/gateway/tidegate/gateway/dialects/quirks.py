"""What a target does not do as its dialect's inventor does: declared flags, never code for one vendor."""

from typing import Literal

import msgspec

from tidegate.gateway.dialects.blocks import Effort


class Quirks(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """One target's deviations. The defaults are OpenAI's and Anthropic's own behaviour today."""

    max_tokens_field: Literal["max_completion_tokens", "max_tokens"] = "max_completion_tokens"
    """Chat completions: the field that bounds the answer."""
    reasoning_field: Literal["", "reasoning_content", "reasoning"] = ""
    """Chat completions: the field in which thinking of earlier turns is sent back; empty = not at all."""
    reasoning_details: bool = False
    """Chat completions: takes `reasoning_details` (signatures and sealed reasoning) in earlier turns."""
    no_developer_role: bool = False
    """`developer` messages are sent as `system`."""
    no_system_role: bool = False
    """Instructions are sent as user text."""
    system_first_only: bool = False
    """Instructions after the first turn are sent as user text."""
    system_anywhere: bool = False
    """Anthropic: takes `system` messages between the turns; else they are sent as user text."""
    no_stream_options: bool = False
    """Chat completions: refuses `stream_options`; usage is then taken from whatever it reports."""
    no_parallel_tool_calls: bool = False
    """Refuses the flag `parallel_tool_calls`."""
    no_strict_tools: bool = False
    """Refuses `strict` on tools."""
    short_tool_ids: bool = False
    """Chat completions: takes ids of tool calls only if they are nine letters and digits."""
    no_custom_tools: bool = False
    """Chat completions: tools that take free text are sent as functions with one string."""
    no_structured_output: bool = False
    """Takes no JSON schema for its answers: requests that need one are refused."""
    no_sampling: bool = False
    """Refuses temperature, top_p and their like, as newer models do: they are dropped with a warning."""
    no_reasoning_effort: bool = False
    """Refuses any field that steers reasoning: it is dropped with a warning."""
    efforts: tuple[Effort, ...] = ()
    """The efforts it knows; any other becomes the nearest. Empty = all that its dialect has."""
    thinking: Literal["adaptive", "budget"] = "adaptive"
    """Anthropic: how thinking is asked for when the client gave an effort."""
    default_max_output_tokens: int = 8192
    """Anthropic requires `max_tokens`; used when the client gave none."""
    auto_cache: bool = False
    """Anthropic: ask for caching of the whole prompt when the client set no mark, as OpenAI's clients expect."""
    cache_key: bool = False
    """Chat completions: takes `prompt_cache_key`; clients of other dialects get one of their tenant and session."""
    cache_control: bool = False
    """Chat completions: takes Anthropic's `cache_control` marks on content parts and tools."""
    content_as_text: bool = False
    """Chat completions: takes message content as one string only."""
    ends_without_done: bool = False
    """Chat completions: the stream ends after the finish reason, without `[DONE]`."""


PLAIN = Quirks()
