"""Other ways to write a stream of chat completions."""

from collections.abc import Callable
from itertools import chain, zip_longest
from typing import Any

from tidegate.simulator.faults import Fault
from tidegate.simulator.frames import Frame

_USAGE_FIELDS = ("completion_tokens", "total_tokens")


def _is_usage(frame: Frame) -> bool:
    return frame.stage == "close" and bool((frame.fields or {}).get("usage"))


def _is_finish(frame: Frame) -> bool:
    return bool(frame.choice.get("finish_reason"))


def usage_at(frames: list[Frame], shape: Fault) -> list[Frame]:
    """The usage elsewhere; a stream that shows none stays as it is."""
    place = next((number for number, frame in enumerate(frames) if _is_usage(frame)), None)
    if place is None:
        return frames
    usage = _fields(frames[place])["usage"]
    return _PLACES[shape.text("where")]([*frames[:place], *frames[place + 1 :]], frames[place], usage)


def _finish(rest: list[Frame], _: Frame, usage: Any) -> list[Frame]:
    return [_with(frame, usage=usage) if _is_finish(frame) else frame for frame in rest]


def _last_content(rest: list[Frame], own: Frame, usage: Any) -> list[Frame]:
    """Content, finish reason and usage in one chunk."""
    contents = [number for number, frame in enumerate(rest) if frame.stage == "content"]
    if not contents:
        return _finish(rest, own, usage)
    reason = next(frame.choice["finish_reason"] for frame in rest if _is_finish(frame))
    last = contents[-1]
    merged = _with(_choice(rest[last], finish_reason=reason), usage=usage)
    return [merged if number == last else frame for number, frame in enumerate(rest) if not _is_finish(frame)]


def _before_finish(rest: list[Frame], own: Frame, _: Any) -> list[Frame]:
    place = next(number for number, frame in enumerate(rest) if _is_finish(frame))
    return [*rest[:place], own, *rest[place:]]


def _own(rest: list[Frame], own: Frame, _: Any) -> list[Frame]:
    return [*rest[:-1], own, rest[-1]]


def _empty_delta(rest: list[Frame], own: Frame, usage: Any) -> list[Frame]:
    choice = {"index": 0, "delta": {}, "logprobs": None, "finish_reason": None}
    return _own(rest, _with(own, choices=[choice]), usage)


def _twice(rest: list[Frame], own: Frame, _: Any) -> list[Frame]:
    return [*rest[:-1], own, own, rest[-1]]


def _every(rest: list[Frame], own: Frame, usage: Any) -> list[Frame]:
    """Running totals in every chunk, as some servers send them."""
    running = [
        frame if frame.fields is None else _with(frame, usage=_running(usage, frame.produced))
        for frame in rest
    ]
    return _own(running, own, usage)


def _late(rest: list[Frame], own: Frame, _: Any) -> list[Frame]:
    return [*rest, own._replace(stage="terminal")]


def _null(rest: list[Frame], own: Frame, usage: Any) -> list[Frame]:
    return _own(rest, _with(own, usage=None), usage)


_PLACES: dict[str, Callable[[list[Frame], Frame, Any], list[Frame]]] = {
    "own": _own,
    "finish": _finish,
    "last_content": _last_content,
    "before_finish": _before_finish,
    "empty_delta": _empty_delta,
    "twice": _twice,
    "every": _every,
    "late": _late,
    "null": _null,
}


def empty_choices(frames: list[Frame], _: Fault) -> list[Frame]:
    """Chunks without choices, as they carry the results of filters."""
    first = frames[0]
    blank = _with(first, choices=[], prompt_filter_results=[{"prompt_index": 0}])
    middle = len(frames) // 2
    return [blank, *frames[:middle], blank._replace(produced=frames[middle - 1].produced), *frames[middle:]]


def late_content(frames: list[Frame], _: Fault) -> list[Frame]:
    """The last content behind the finish reason."""
    contents = [number for number, frame in enumerate(frames) if frame.stage == "content"]
    place = next(number for number, frame in enumerate(frames) if _is_finish(frame))
    if not contents:
        return frames
    moved = frames[contents[-1]]
    rest = [frame for frame in frames[:place] if frame is not moved]
    return [*rest, frames[place], moved, *frames[place + 1 :]]


def repeated_role(frames: list[Frame], _: Fault) -> list[Frame]:
    """The role in every delta."""
    return [_delta(frame, role="assistant") if frame.choice else frame for frame in frames]


def tool_index(frames: list[Frame], shape: Fault) -> list[Frame]:
    """Another index for every call, or none."""
    kind = shape.text("kind")

    def renumbered(call: dict[str, Any]) -> dict[str, Any]:
        rest = {name: value for name, value in call.items() if name != "index"}
        if kind == "missing":
            return rest
        return {"index": 0 if kind == "duplicate" else call["index"] * 2 + 1, **rest}

    return [_recalled(frame, renumbered) for frame in frames]


def repeated_names(frames: list[Frame], _: Fault) -> list[Frame]:
    """Id, type and name of a call in every delta of it."""
    opened = _opened(frames)

    def named(call: dict[str, Any]) -> dict[str, Any]:
        whole = opened[call["index"]]
        kind = whole["type"]
        return {**whole, kind: {**whole[kind], **call.get(kind, {})}}

    return [_recalled(frame, named) for frame in frames]


def one_piece(frames: list[Frame], _: Fault) -> list[Frame]:
    """Every call whole in its first delta, which is content then."""
    texts: dict[int, str] = {}
    produced: dict[int, int] = {}
    for frame in frames:
        for call in frame.calls if frame.stage == "content" else []:
            texts[call["index"]] = texts.get(call["index"], "") + _text(call)
            produced[call["index"]] = frame.produced
    made: list[Frame] = []
    for frame in frames:
        if not frame.calls:
            made.append(frame)
        elif frame.stage == "open":
            index = frame.calls[0]["index"]
            whole = _recalled(frame, lambda call: _filled(call, texts.get(call["index"], "")))
            made.append(whole._replace(stage="content", produced=produced.get(index, frame.produced)))
    return made


def interleaved(frames: list[Frame], _: Fault) -> list[Frame]:
    """First the openings of all calls, then a piece of each in turns."""
    calls = [frame for frame in frames if frame.calls]
    if not calls:
        return frames
    place = frames.index(calls[0])
    opened = [frame._replace(produced=calls[0].produced) for frame in calls if frame.stage == "open"]
    by_call: dict[int, list[Frame]] = {}
    for frame in calls:
        if frame.stage == "content":
            by_call.setdefault(frame.calls[0]["index"], []).append(frame)
    mixed = [frame for frame in chain.from_iterable(zip_longest(*by_call.values())) if frame is not None]
    amounts = sorted(frame.produced for frame in mixed)
    pieces = [frame._replace(produced=amount) for frame, amount in zip(mixed, amounts, strict=True)]
    rest = [frame for frame in frames[place:] if not frame.calls]
    return [*frames[:place], *opened, *pieces, *rest]


def unknown_events(frames: list[Frame], _: Fault) -> list[Frame]:
    """Fields that no client knows, at the top and in the delta."""
    return [
        _with(_delta(frame, x_sim=None) if frame.choice else frame, x_sim={"a": [1]})
        if frame.fields
        else frame
        for frame in frames
    ]


def _fields(frame: Frame) -> dict[str, Any]:
    return frame.fields or {}


def _with(frame: Frame, **fields: Any) -> Frame:
    return frame._replace(fields={**_fields(frame), **fields})


def _choice(frame: Frame, **fields: Any) -> Frame:
    return _with(frame, choices=[{**frame.choice, **fields}])


def _delta(frame: Frame, **fields: Any) -> Frame:
    return _choice(frame, delta={**frame.choice["delta"], **fields})


def _recalled(frame: Frame, change: Callable[[dict[str, Any]], dict[str, Any]]) -> Frame:
    return _delta(frame, tool_calls=[change(call) for call in frame.calls]) if frame.calls else frame


def _opened(frames: list[Frame]) -> dict[int, dict[str, Any]]:
    return {call["index"]: call for frame in frames if frame.stage == "open" for call in frame.calls}


def _text(call: dict[str, Any]) -> str:
    return "".join(holder.get(field, "") for holder, field in _holders(call))


def _filled(call: dict[str, Any], text: str) -> dict[str, Any]:
    kind = call["type"]
    return {**call, kind: {**call[kind], ("input" if kind == "custom" else "arguments"): text}}


def _holders(call: dict[str, Any]) -> list[tuple[dict[str, Any], str]]:
    return [(call.get("function", {}), "arguments"), (call.get("custom", {}), "input")]


def _running(usage: dict[str, Any], produced: int) -> dict[str, Any]:
    completion, total = _USAGE_FIELDS
    return {**usage, completion: produced, total: usage["prompt_tokens"] + produced}
