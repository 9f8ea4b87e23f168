"""An answer as it streams, in no dialect: one block after the other, opened, filled and closed."""

from typing import Literal, Protocol

import msgspec

from tidegate.events.money import Tokens
from tidegate.gateway.dialects.blocks import Stop, Thinking


class Head(msgspec.Struct, frozen=True, gc=False):
    """What is known of a block when it opens. `redacted` thinking has no pieces."""

    kind: Literal["text", "refusal", "thinking", "tool"]
    call_id: str = ""
    name: str = ""
    is_custom: bool = False
    redacted: str | None = None


class BlockSink(Protocol):
    """Takes the parts of an answer in this order: begin, then blocks (open, pieces, close), then end.

    Never two blocks at once. Raises AnswerMalformed when the content cannot be said in the sink's dialect.
    """

    def begin(self, answer_id: str, model: str, created_s: int | None, tier: str | None = None) -> None:
        """The answer starts; empty or None = the upstream did not say. `tier` is how it is served."""
        ...

    def open(self, head: Head) -> None:
        """A block starts."""
        ...

    def piece(self, text: str) -> None:
        """More of the open block; never empty. For tools, a part of the arguments' text."""
        ...

    def close(self, proof: Thinking | None) -> None:
        """The open block ends; `proof` is what signs or seals thinking (its `text` is not used)."""
        ...

    def end(self, stop: Stop, stop_sequence: str | None, tokens: Tokens, tier: str | None = None) -> None:
        """The answer is whole; `tier` is how it was served."""
        ...
