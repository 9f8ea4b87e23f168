"""Answers that a provider keeps, so that a later request can go on from them."""

from typing import Any

from tidegate.simulator.refusal import Refusal

MAX_ANSWERS = 10_000


class AnswerStore:
    """Response id → the items of its conversation so far; the oldest are forgotten first."""

    def __init__(self) -> None:
        self._items: dict[str, list[dict[str, Any]]] = {}

    def items(self, response: str) -> list[dict[str, Any]]:
        """The conversation up to and with an answer. Raises Refusal 400 for one that is not kept."""
        found = self._items.get(response)
        if found is None:
            raise Refusal(
                400,
                f"Previous response with id '{response}' not found.",
                code="previous_response_not_found",
                param="previous_response_id",
            )
        return found

    def keep(self, response: str, items: list[dict[str, Any]]) -> None:
        """Keep an answer with all that led to it."""
        self._items[response] = items
        if len(self._items) > MAX_ANSWERS:
            self._items.pop(next(iter(self._items)))
