"""The items of a response: reasoning, messages, and calls of tools."""

from collections.abc import Iterator
from typing import Any, NamedTuple

from tidegate.simulator.answer import THOUGHT, Answer, Part, call_id
from tidegate.simulator.responses_ask import ENCRYPTED

Item = dict[str, Any]


class Output(NamedTuple):
    """One item of the answer: the parts it is made of, and its shape at its beginning and at its end."""

    parts: tuple[Part, ...]
    opened: Item
    closed: Item


def outputs(answer: Answer) -> list[Output]:
    """The answer's items in order; texts that follow one another are parts of one message."""
    groups = list(_groups(answer))
    if answer.silent_tokens and not any(part.kind in THOUGHT for part in answer.parts):
        groups.insert(0, ())
    return [_output(answer, parts, place) for place, parts in enumerate(groups)]


def content_part(part: Part, text: str) -> Item:
    """A part of a message with this much of its text."""
    if part.kind == "refusal":
        return {"type": "refusal", "refusal": text}
    return {"type": "output_text", "text": text, "annotations": [], "logprobs": []}


def _groups(answer: Answer) -> Iterator[tuple[Part, ...]]:
    spoken: list[Part] = []
    for part in answer.parts:
        if part.kind == "found":
            continue
        if part.kind in ("text", "refusal"):
            spoken.append(part)
            continue
        if spoken:
            yield tuple(spoken)
            spoken = []
        yield (part,)
    if spoken:
        yield tuple(spoken)


def _output(answer: Answer, parts: tuple[Part, ...], place: int) -> Output:
    identity = f"{answer.id}{place:02x}"
    first = parts[0] if parts else Part("reasoning", "", 0)
    match first.kind:
        case "reasoning" | "redacted":
            return _reasoning(answer, parts, first, f"rs_{identity}")
        case "tool":
            return _call(answer, first, identity)
        case "search" | "opened":
            return _search(first, f"ws_{identity}")
        case _:
            item = {"id": f"msg_{identity}", "type": "message", "role": "assistant"}
            content = [content_part(part, part.text) for part in parts]
            return Output(
                parts,
                {**item, "status": "in_progress", "content": []},
                {**item, "status": _status(answer), "content": content},
            )


def _reasoning(answer: Answer, parts: tuple[Part, ...], part: Part, identity: str) -> Output:
    """The summary is shown where the request asks for one, the encrypted thoughts likewise."""
    item: Item = {"id": identity, "type": "reasoning", "summary": []}
    if ENCRYPTED in answer.echo.get("include", ()):
        item["encrypted_content"] = answer.hidden_seal if part.kind == "reasoning" else part.seal
    wanted = answer.echo.get("reasoning")
    shown = part.kind == "reasoning" and part.text and isinstance(wanted, dict) and wanted.get("summary")
    closed = {**item, "summary": [{"type": "summary_text", "text": part.text}]} if shown else item
    return Output(parts, item, closed)


def _search(part: Part, identity: str) -> Output:
    item = {"id": identity, "type": "web_search_call", "status": "in_progress"}
    action = (
        {"type": "search", "query": part.text, "sources": []}
        if part.kind == "search"
        else {"type": "open_page", "url": part.text}
    )
    return Output((part,), item, {**item, "status": "completed", "action": action})


def _call(answer: Answer, part: Part, identity: str) -> Output:
    place = next(number for number, call in enumerate(answer.calls) if call is part)
    named = {"call_id": f"call_{call_id(answer, place)}", "name": part.name}
    if part.custom:
        item = {"id": f"ctc_{identity}", "type": "custom_tool_call", "status": "in_progress", **named}
        return Output((part,), {**item, "input": ""}, {**item, "status": "completed", "input": part.text})
    item = {"id": f"fc_{identity}", "type": "function_call", "status": "in_progress", **named}
    return Output((part,), {**item, "arguments": ""}, {**item, "status": "completed", "arguments": part.text})


def _status(answer: Answer) -> str:
    return "incomplete" if answer.finish in ("length", "filter") else "completed"
