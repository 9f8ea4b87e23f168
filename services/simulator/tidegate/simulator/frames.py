"""Events taken apart, so that they can be written in another way."""

from typing import Any, NamedTuple

import orjson

from tidegate.simulator import sse
from tidegate.simulator.wire import Event, Stage


class Frame(NamedTuple):
    """An event of one data line: its name, and its JSON, None for what is not JSON (`[DONE]`)."""

    stage: Stage
    produced: int
    name: bytes | None
    fields: dict[str, Any] | None
    raw: bytes

    @property
    def choice(self) -> dict[str, Any]:
        """The one choice of a chat chunk, empty where there is none."""
        choices = (self.fields or {}).get("choices")
        return choices[0] if choices else {}

    @property
    def calls(self) -> list[dict[str, Any]]:
        """The tool calls in the delta of a chat chunk."""
        return self.choice.get("delta", {}).get("tool_calls") or []

    def event(self) -> Event:
        """The frame as an event again."""
        data = self.raw if self.fields is None else sse.event(orjson.dumps(self.fields), self.name)
        return Event(self.stage, data, self.produced)


def taken_apart(event: Event) -> Frame:
    """An event of the simulator's own writer as a frame."""
    head, _, data = event.data.rstrip(b"\n").rpartition(b"data: ")
    name = head.removeprefix(b"event: ").rstrip(b"\n") or None
    fields = orjson.loads(data) if data.startswith(b"{") else None
    return Frame(event.stage, event.produced, name, fields, event.data)
