"""What all stream decoders have in common."""

from enum import Enum, auto
from typing import Any, Protocol


class Verdict(Enum):
    """What one event of an upstream's stream was."""

    GOES_ON = auto()
    TERMINAL = auto()
    ERROR = auto()


class Decoder(Protocol):
    """Reads the events of one stream, in order; tells a BlockSink. Raises AnswerMalformed."""

    model: str | None
    """The model the upstream named."""

    @property
    def has_finish_reason(self) -> bool:
        """Did the upstream say why it ended?"""
        ...

    def read(self, data: dict[str, Any]) -> Verdict:
        """One event's data; its `type` is filled in from the event's name where it was missing."""
        ...

    def finish(self) -> None:
        """The terminal event came: close what is open and end the answer."""
        ...
