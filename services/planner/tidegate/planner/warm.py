"""What a session has left in a target's cache: a few contexts, told apart by their length. Pure.

Agents go back and forth between one long conversation and short ones beside it, all under one session.
"""

import msgspec

from tidegate.events.money import Tokens

CONTEXTS = 3
"""How many contexts of a session are remembered by target."""


class Left(msgspec.Struct, frozen=True, gc=False):
    """The last prompt of one context."""

    asked_tokens: int
    """Its length as it was estimated before the call."""
    prompt_tokens: int
    cached_tokens: int | None
    """How much of it the provider may keep; None when it does not report its cache."""
    at_ns: int


Contexts = tuple[Left, ...]
"""Newest first."""


def left_by(tokens: Tokens, asked_tokens: int | None, at_ns: int) -> Left | None:
    """What an answered prompt leaves; None when its length is unknown. Without an estimate its length stands for it."""
    if tokens.input_uncached is None:
        return None
    prompt_tokens = tokens.known_input()
    return Left(
        prompt_tokens if asked_tokens is None else asked_tokens,
        prompt_tokens,
        _kept(tokens, prompt_tokens),
        at_ns,
    )


def grown_from(contexts: Contexts, asked_tokens: int) -> Left:
    """The context that a prompt of this length goes on with: the longest that is no longer, else the shortest.

    `contexts` holds at least one.
    """
    if len(contexts) == 1:
        return contexts[0]
    best = contexts[0]
    for each in contexts[1:]:
        fits, best_fits = each.asked_tokens <= asked_tokens, best.asked_tokens <= asked_tokens
        longer = each.asked_tokens > best.asked_tokens
        if (fits and not best_fits) or (fits == best_fits and longer == fits):
            best = each
    return best


def with_context(contexts: Contexts, left: Left) -> Contexts:
    """The contexts after this prompt: it stands for the one it has grown from, and else drives out the oldest."""
    others = contexts
    if contexts:
        grown = grown_from(contexts, left.asked_tokens)
        if grown.asked_tokens <= left.asked_tokens:
            others = tuple([each for each in contexts if each is not grown])
    return (left, *others[: CONTEXTS - 1])


def _kept(tokens: Tokens, prompt_tokens: int) -> int | None:
    """Input tokens read from or written to the cache. Who tells of reads only caches by itself: all may be kept."""
    read, written_5m, written_1h = tokens.cache_read, tokens.cache_write_5m, tokens.cache_write_1h
    if written_5m is None and written_1h is None:
        return None if read is None else prompt_tokens
    return (read or 0) + (written_5m or 0) + (written_1h or 0)
