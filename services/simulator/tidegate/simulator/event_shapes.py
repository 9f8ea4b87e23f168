"""Other ways to write the events of messages and responses."""

from typing import Any

from tidegate.simulator.faults import Fault
from tidegate.simulator.frames import Frame

_INPUTS = ("input_tokens", "cache_read_input_tokens", "cache_creation_input_tokens")


def message_usage_at(frames: list[Frame], shape: Fault) -> list[Frame]:
    """The usage of a message at its start, at its end, in both, or smaller at first; or null."""
    where = shape.text("where")
    start, end = (
        frames[0],
        next(frame for frame in frames if (frame.fields or {}).get("type") == "message_delta"),
    )
    if "usage" not in _fields(end):
        return frames
    output = _fields(end)["usage"]["output_tokens"]
    first = _fields(start)["message"]["usage"]
    full = {**first, "output_tokens": output}
    at_start, at_end = {
        "start": (full, {}),
        "end": ({name: _zero(value) for name, value in first.items()}, full),
        "both": (first, full),
        "larger": ({**first, **{name: first[name] // 2 for name in _INPUTS}}, full),
        "null": (None, None),
    }.get(where, (first, {"output_tokens": output}))
    message = {**_fields(start)["message"], "usage": at_start}
    # A closing event without counts has no usage at all.
    closing = {name: value for name, value in _fields(end).items() if name != "usage"}
    changed = {id(start): {**_fields(start), "message": message}, id(end): closing}
    if at_end != {}:
        closing["usage"] = at_end
    return [frame._replace(fields=changed[id(frame)]) if id(frame) in changed else frame for frame in frames]


def response_usage_at(frames: list[Frame], shape: Fault) -> list[Frame]:
    """The usage of a response, or null."""
    if shape.text("where") != "null":
        return frames
    last = frames[-1]
    response = {**_fields(last)["response"], "usage": None}
    return [*frames[:-1], last._replace(fields={**_fields(last), "response": response})]


def unknown_events(frames: list[Frame], _: Fault) -> list[Frame]:
    """After the opening an event that no client knows, and in every event a field of that kind."""
    kind = "response.sim_future" if frames[0].name == b"response.created" else "sim_future"
    strange = frames[0]._replace(name=kind.encode(), fields={"type": kind, "x_sim": 1})
    known = [frame._replace(fields={**_fields(frame), "x_sim": {"a": [1]}}) for frame in frames]
    return [known[0], strange, *known[1:]]


def _fields(frame: Frame) -> dict[str, Any]:
    return frame.fields or {}


def _zero(value: Any) -> Any:
    """Every count of a usage as zero, also those that are grouped."""
    if isinstance(value, dict):
        return {name: _zero(inner) for name, inner in value.items()}
    return 0 if isinstance(value, int) else value
