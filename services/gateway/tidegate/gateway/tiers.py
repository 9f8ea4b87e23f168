"""Service tiers: what a client asks for, what a provider says it gave, and how other dialects say so. Pure."""

import re
from typing import Any

from tidegate.events.types import Dialect

STANDARD = "standard"
"""Served as usual, and the provider said so; what nobody said is None."""

_WORD = re.compile(r"[a-z][a-z0-9_-]{0,31}")
_AS_USUAL = frozenset({STANDARD, "standard_only", "default"})
_UNDECIDED = "auto"
"""Says nothing of how a request is served: the provider, or a setting of the account, decides."""
_OF_OPENAI = {
    STANDARD: "default",
    "flex": "flex",
    "scale": "scale",
    "priority": "priority",
    "fast": "priority",
    "ultrafast": "ultrafast",
}
"""OpenAI calls `fast` `priority` where it answers (its guide to Fast mode)."""
_OF_ANTHROPIC = frozenset({STANDARD, "priority", "batch"})


def named(word: Any) -> str | None:
    """A tier by its word in an answer; None for what is no word, or says nothing."""
    if not isinstance(word, str) or word == _UNDECIDED or not _WORD.fullmatch(word):
        return None
    return STANDARD if word in _AS_USUAL else word


def priced(tier: str | None) -> str | None:
    """The tier by which prices are looked up: None is the usual one."""
    return None if tier == STANDARD else tier


def asked(dialect: Dialect, service_tier: Any, speed: Any) -> str | None:
    """The tier that a request asks for, None as usual. `speed` is Anthropic's."""
    if dialect == "anthropic":
        return "fast" if speed == "fast" else priced(named(service_tier))
    tier = priced(named(service_tier))
    return "priority" if tier == "fast" else tier


def told(client: Dialect, upstream: Dialect, tier: str | None) -> str | None:
    """The tier that an upstream is asked for when a client asks for `tier`: between vendors no word means the same."""
    return tier if client == upstream or "anthropic" not in (client, upstream) else None


def for_openai(tier: str | None) -> dict[str, str]:
    """The fields that tell of a tier beside the answer; none where the dialect has no word for it."""
    word = _OF_OPENAI.get(tier or "")
    return {} if word is None else {"service_tier": word}


def for_messages(tier: str | None) -> dict[str, str]:
    """The fields that tell of a tier inside Anthropic's usage; `fast` is a speed there."""
    if tier == "fast":
        return {"service_tier": STANDARD, "speed": "fast"}
    return {"service_tier": tier} if tier in _OF_ANTHROPIC else {}
