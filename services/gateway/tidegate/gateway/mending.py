"""Refusals for what another provider signed: the request can be told again without it. Pure."""

import re

from tidegate.gateway.taxonomy import Failure

_WORDS = re.compile(
    r"signature|encrypted[ _]content|redacted|`thinking`|thinking block"
    r"|duplicate item|item (?:with id )?['\"`].{1,200}(?:not found|without its)|\binput\[\d+\]\.id\b",
    re.IGNORECASE,
)
"""As vendors put it. They quote the request, which may bring in any of these words; all that follows is one more
attempt, and only where the history holds something to leave out."""


def is_about_history(failure: Failure) -> bool:
    """Does a provider say that it cannot read or verify what it was told of earlier turns?"""
    return failure.cause in {"invalid_request", "unknown"} and _WORDS.search(failure.message) is not None
