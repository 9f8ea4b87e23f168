"""Silence that a request's own size explains says nothing of the target. Pure."""

from math import inf

import msgspec

from tidegate.events.config import Deadlines
from tidegate.gateway.outbound.faults import FirstTokenTimeout, HeaderTimeout, IdleTimeout, UpstreamError

READ_TOKENS_PER_S = 2_000
"""Slowest reading of a prompt that still is healthy: a million tokens in eight minutes."""
THINK_TOKENS_PER_S = 20
"""Slowest silent reasoning that still is healthy."""


def for_whole_answers(deadlines: Deadlines) -> Deadlines:
    """The deadlines of a call whose head comes with its finished answer: only the whole call is bounded."""
    return msgspec.structs.replace(deadlines, header_s=inf, first_token_s=inf)


def is_explained(error: UpstreamError, deadlines: Deadlines, input_tokens: int, thinking_tokens: int) -> bool:
    """True when reading that many tokens, and thinking that many in silence, may take longer than we waited."""
    waited_s = _waited_s(error, deadlines)
    if waited_s is None:
        return False
    return input_tokens / READ_TOKENS_PER_S + thinking_tokens / THINK_TOKENS_PER_S >= waited_s


def _waited_s(error: UpstreamError, deadlines: Deadlines) -> float | None:
    """The deadline that passed before any content, None for any other fault."""
    if isinstance(error, HeaderTimeout):
        return deadlines.header_s
    if isinstance(error, FirstTokenTimeout):
        return deadlines.first_token_s
    return deadlines.idle_s if isinstance(error, IdleTimeout) and error.phase == "first_byte" else None
