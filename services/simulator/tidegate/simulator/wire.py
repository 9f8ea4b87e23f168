"""What a dialect must be able to write; one class per dialect fills it."""

from collections.abc import Iterator, Sequence
from typing import Literal, NamedTuple, Protocol

from tidegate.simulator.actions import Headers
from tidegate.simulator.answer import Answer
from tidegate.simulator.ask import Ask
from tidegate.simulator.config import Dialect
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.windows import WindowState

Stage = Literal["open", "content", "close", "terminal"]


class Event(NamedTuple):
    """One server-sent event and the output tokens that are out once it was sent."""

    stage: Stage
    data: bytes
    produced: int


class Wire(Protocol):
    """A dialect: reading requests, writing answers, events, errors and rate-limit headers.

    `endpoint` is what the log calls it: the dialect, or embeddings.
    """

    dialect: Dialect
    endpoint: str

    def read(self, body: bytes) -> Ask:
        """Body to Ask. Raises Refusal 400."""
        ...

    def whole(self, answer: Answer) -> bytes:
        """The body of an answer that is not streamed."""
        ...

    def events(self, answer: Answer, size_tokens: int) -> Iterator[Event]:
        """The events of a streamed answer, `size_tokens` of content at a time."""
        ...

    def error(self, refusal: Refusal, request_id: str) -> bytes:
        """The body of an error answer."""
        ...

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        """An error inside a stream."""
        ...

    def keep_alive(self) -> bytes:
        """What the vendor sends while there is nothing to say."""
        ...

    def headers(
        self, request_id: str, states: Sequence[WindowState], pending_tokens: int, now_s: float
    ) -> Headers:
        """Request id and rate-limit headers; `pending_tokens` of this request are already taken off."""
        ...
