"""Whether the JSON under a 200 is an answer of its dialect. Pure."""

from typing import Any

from tidegate.events.types import Dialect
from tidegate.gateway import said


def lacks(dialect: Dialect, answer: dict[str, Any]) -> str | None:
    """What keeps it from being an answer that a client of the dialect can read; None when nothing does.

    Only what every answer has is asked for: the rest is between provider and client.
    """
    if dialect == "anthropic":
        return None if answer.get("type") == "message" and _lists(answer, "content") else "message content"
    if dialect == "openai-responses":
        return None if answer.get("status") != "failed" and _lists(answer, "output") else "output"
    if dialect == "openai-embeddings":
        return None if _lists(answer, "data") else "data"
    # Some add an error to choices that were not finished: those are the client's.
    return None if _lists(answer, "choices") and (answer["choices"] or not answer.get("error")) else "choices"


def produced_tokens(dialect: Dialect, answer: dict[str, Any], limit: int | None) -> int:
    """Estimate of the output tokens in an answer that reports none, as of a stream that says the same. `limit`: as
    many as an answer may have, None where nothing bounds it."""
    return said.produced_tokens(0, said.size_of(dialect, answer), limit)


def _lists(answer: dict[str, Any], field: str) -> bool:
    return isinstance(answer.get(field), list)
