"""A dialect's wire whose streams are written in other ways."""

from collections.abc import Callable, Iterator, Sequence

from tidegate.simulator import chat_shapes, event_shapes
from tidegate.simulator.actions import Headers
from tidegate.simulator.answer import Answer
from tidegate.simulator.ask import Ask
from tidegate.simulator.byte_shapes import BYTE_SHAPES
from tidegate.simulator.config import Dialect
from tidegate.simulator.faults import Fault, FaultUnknown
from tidegate.simulator.frames import Frame, taken_apart
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.shape_catalogue import USAGE_PLACES
from tidegate.simulator.windows import WindowState
from tidegate.simulator.wire import Event, Wire

Maker = Callable[[list[Frame], Fault], list[Frame]]
_CHAT: dict[str, Maker] = {
    "usage_at": chat_shapes.usage_at,
    "empty_choices": chat_shapes.empty_choices,
    "late_content": chat_shapes.late_content,
    "repeated_role": chat_shapes.repeated_role,
    "repeated_names": chat_shapes.repeated_names,
    "one_piece": chat_shapes.one_piece,
    "interleaved": chat_shapes.interleaved,
    "tool_index": chat_shapes.tool_index,
    "unknown_events": chat_shapes.unknown_events,
}
_MESSAGES: dict[str, Maker] = {
    "usage_at": event_shapes.message_usage_at,
    "unknown_events": event_shapes.unknown_events,
}
_RESPONSES: dict[str, Maker] = {
    "usage_at": event_shapes.response_usage_at,
    "unknown_events": event_shapes.unknown_events,
}
_MAKERS = {"openai": _CHAT, "anthropic": _MESSAGES, "responses": _RESPONSES}


def check_shape(dialect: str, shape: Fault) -> None:
    """Raise FaultUnknown for a place of the usage that the dialect does not have."""
    if shape.kind == "usage_at" and shape.text("where") not in USAGE_PLACES[dialect]:
        places = ", ".join(USAGE_PLACES[dialect])
        raise FaultUnknown(f"fault usage_at: where must be one of {places} in the dialect {dialect}")


class Reshaped:
    """Everything as the wire has it, but for the events; shapes of other dialects change nothing."""

    def __init__(self, wire: Wire, shapes: Sequence[Fault]) -> None:
        self._wire = wire
        self.dialect: Dialect = wire.dialect
        self.endpoint: str = wire.endpoint
        makers = _MAKERS[wire.dialect]
        self._frame_shapes = [(makers[shape.kind], shape) for shape in shapes if shape.kind in makers]
        self._byte_shapes = [
            (make, shape) for kind, make in BYTE_SHAPES.items() for shape in shapes if shape.kind == kind
        ]

    def read(self, body: bytes) -> Ask:
        """Body to Ask. Raises Refusal 400."""
        return self._wire.read(body)

    def whole(self, answer: Answer) -> bytes:
        """The body of an answer that is not streamed: in it, only a usage of null is another way."""
        hidden = any(
            shape.kind == "usage_at" and shape.text("where") == "null" for _, shape in self._frame_shapes
        )
        return self._wire.whole(answer._replace(show_usage=answer.show_usage and not hidden))

    def events(self, answer: Answer, size_tokens: int) -> Iterator[Event]:
        """The events, changed as the shapes say."""
        events = self._wire.events(answer, size_tokens)
        if self._frame_shapes:
            frames = [taken_apart(event) for event in events]
            for make, shape in self._frame_shapes:
                frames = make(frames, shape)
            events = (frame.event() for frame in frames)
        for write, shape in self._byte_shapes:
            events = write(events, shape)
        return events

    def error(self, refusal: Refusal, request_id: str) -> bytes:
        """The body of an error answer."""
        return self._wire.error(refusal, request_id)

    def error_event(self, refusal: Refusal, request_id: str) -> bytes:
        """An error inside a stream."""
        return self._wire.error_event(refusal, request_id)

    def keep_alive(self) -> bytes:
        """What the vendor sends while there is nothing to say."""
        return self._wire.keep_alive()

    def headers(
        self, request_id: str, states: Sequence[WindowState], pending_tokens: int, now_s: float
    ) -> Headers:
        """Request id and rate-limit headers."""
        return self._wire.headers(request_id, states, pending_tokens, now_s)
