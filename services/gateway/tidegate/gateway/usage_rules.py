"""Which fields of a usage object mean what, per vendor: declared, so that one reader serves them all. Pure."""

from collections.abc import Mapping
from typing import Literal
from urllib.parse import urlsplit

import msgspec
from msgspec.structs import replace

Wire = Literal["openai", "responses", "embeddings", "anthropic"]
"""Shapes of usage: OpenAI's chat completions, responses and embeddings, Anthropic's messages."""
Spoken = Literal["openai", "openai-responses", "openai-embeddings", "anthropic", "responses", "embeddings"]
"""A dialect, under its own name or that of its shape."""

WIRES: Mapping[Spoken, Wire] = {
    "openai": "openai",
    "openai-responses": "responses",
    "openai-embeddings": "embeddings",
    "anthropic": "anthropic",
    "responses": "responses",
    "embeddings": "embeddings",
}
"""Shape of usage of each dialect."""


class UsageRules(msgspec.Struct, frozen=True):
    """Names of fields, inner ones with a dot; of several alternatives the first that is present counts."""

    cached: tuple[str, ...] = ()
    written: tuple[str, ...] = ()
    reasoning: tuple[str, ...] = ()
    beside_output: tuple[str, ...] = ()
    """Counts that the vendor bills as output but keeps out of its output count: all of them are added."""
    input_audio: tuple[str, ...] = ()
    input_image: tuple[str, ...] = ()
    cached_audio: tuple[str, ...] = ()
    output_audio: tuple[str, ...] = ()
    output_image: tuple[str, ...] = ()
    searches: tuple[str, ...] = ()
    rare: frozenset[str] = frozenset()
    """All names of sound, pictures and searches; made of the above."""
    details: frozenset[str] = frozenset()
    """All names that split the prompt or the output; made of the above."""

    def __post_init__(self) -> None:
        """Collect the names of `rare` and of `details`."""
        rare = self.input_audio + self.input_image + self.cached_audio + self.output_audio + self.output_image
        rare += self.searches
        details = rare + self.cached + self.written + self.reasoning
        msgspec.structs.force_setattr(self, "rare", frozenset(rare))
        msgspec.structs.force_setattr(self, "details", frozenset(details))


_IN, _OUT = "prompt_tokens_details.", "completion_tokens_details."
_R_IN, _R_OUT = "input_tokens_details.", "output_tokens_details."

OPENAI = UsageRules(
    cached=(
        _IN + "cached_tokens", _R_IN + "cached_tokens", "prompt_cache_hit_tokens", "cached_tokens",
    ),
    written=(_IN + "cache_write_tokens", _R_IN + "cache_write_tokens"),
    reasoning=(_OUT + "reasoning_tokens", _R_OUT + "reasoning_tokens"),
    input_audio=(_IN + "audio_tokens", _R_IN + "audio_tokens"),
    input_image=(_IN + "image_tokens", _R_IN + "image_tokens"),
    cached_audio=(_IN + "cached_tokens_details.audio_tokens", _R_IN + "cached_tokens_details.audio_tokens"),
    output_audio=(_OUT + "audio_tokens", _R_OUT + "audio_tokens"),
    output_image=(_OUT + "image_tokens", _R_OUT + "image_tokens"),
    searches=("num_search_queries", "server_tool_use.web_search_requests"),
)  # fmt: skip
"""For whom nothing is declared: every name in use that has one meaning only."""
ANTHROPIC = UsageRules(
    reasoning=(_R_OUT + "thinking_tokens", _R_OUT + "reasoning_tokens"),
    searches=("server_tool_use.web_search_requests",),
)
GENERIC: dict[Wire, UsageRules] = {
    "openai": OPENAI,
    "responses": OPENAI,
    "embeddings": UsageRules(),
    "anthropic": ANTHROPIC,
}

_CACHED, _WRITTEN = (_IN + "cached_tokens",), (_IN + "cache_write_tokens",)
_THOUGHT = (_OUT + "reasoning_tokens",)
_HEARD, _SPOKEN = (_IN + "audio_tokens",), (_OUT + "audio_tokens",)

_CHAT = UsageRules(cached=_CACHED, reasoning=_THOUGHT)
_CHAT_SPEAKS = replace(_CHAT, output_audio=_SPOKEN)
_CHAT_HEARS = replace(_CHAT_SPEAKS, input_audio=_HEARD)
_CHAT_WHOLE = replace(_CHAT_HEARS, written=_WRITTEN)
_CHAT_WRITES = replace(_CHAT, written=_WRITTEN)
_RESPONSES_SHORT = UsageRules(cached=(_R_IN + "cached_tokens",))
_RESPONSES = replace(_RESPONSES_SHORT, reasoning=(_R_OUT + "reasoning_tokens",))
_RESPONSES_WHOLE = replace(_RESPONSES, written=(_R_IN + "cache_write_tokens",))
_MESSAGES = UsageRules()

_BEHIND_ONE_DOOR = (
    "cerebras", "fireworks-ai", "groq", "hyperbolic", "nebius", "novita", "nscale", "ovhcloud", "publicai",
    "sambanova", "together",
)  # fmt: skip

DECLARED: dict[tuple[str, Wire], UsageRules] = {
    ("openai", "openai"): _CHAT_WHOLE,
    ("openai", "responses"): _RESPONSES_WHOLE,
    ("azure", "openai"): _CHAT_HEARS,
    ("azure", "responses"): _RESPONSES,
    ("azure", "anthropic"): _MESSAGES,
    ("anthropic", "openai"): UsageRules(cached=("cached_tokens",), reasoning=_THOUGHT),
    ("anthropic", "anthropic"): replace(ANTHROPIC, reasoning=(_R_OUT + "thinking_tokens",)),
    ("aws", "anthropic"): _MESSAGES,
    ("google", "anthropic"): _MESSAGES,
    ("google", "openai"): _CHAT_HEARS,
    ("groq", "openai"): _CHAT_HEARS,
    ("openrouter", "openai"): _CHAT_WHOLE,
    ("ovhcloud", "openai"): _CHAT_WHOLE,
    ("deepseek", "openai"): _CHAT_SPEAKS,
    ("fireworks", "openai"): _CHAT_SPEAKS,
    ("doubleword", "openai"): _CHAT_WRITES,
    ("doubleword", "responses"): _RESPONSES_SHORT,
    ("moonshotai", "openai"): _CHAT,
    ("minimax", "openai"): _CHAT,
    ("minimax", "responses"): _RESPONSES_SHORT,
    ("minimax", "anthropic"): _MESSAGES,
    ("mistral", "openai"): _CHAT,
    ("zai", "openai"): _CHAT,
    ("zhipuai", "openai"): _CHAT,
    ("cerebras", "openai"): UsageRules(reasoning=_THOUGHT),
    ("modal", "openai"): UsageRules(cached=_CACHED, written=_WRITTEN, reasoning=("reasoning_tokens",)),
    ("modal", "responses"): _RESPONSES_WHOLE,
    ("perplexity", "openai"): UsageRules(
        reasoning=("reasoning_tokens",),
        beside_output=("reasoning_tokens", "citation_tokens"),
        searches=("num_search_queries",),
    ),
    ("x-ai", "openai"): replace(_CHAT_SPEAKS, beside_output=_THOUGHT),
    ("x-ai", "responses"): _RESPONSES,
    ("x-ai-sdk", "openai"): UsageRules(
        cached=("cached_prompt_text_tokens",),
        reasoning=("reasoning_tokens",),
        beside_output=("reasoning_tokens",),
    ),
    **{(f"huggingface_{name}", "openai"): _CHAT_WHOLE for name in _BEHIND_ONE_DOOR},
}
"""By vendor and shape. What a vendor is not known to report is not counted for it."""

_HOSTS: dict[str, str] = {
    "api.x.ai": "x-ai",
    "api.perplexity.ai": "perplexity",
}
"""Only where the general reading would bill too little."""


def rules_for(dialect: Spoken, provider: str, base_url: str = "") -> UsageRules:
    """Rules of a target: by its declared provider, else by host, else the general ones of its dialect."""
    wire = WIRES[dialect]
    vendor = provider.lower() or _HOSTS.get(urlsplit(base_url).hostname or "", "")
    return DECLARED.get((vendor, wire), GENERIC[wire])
