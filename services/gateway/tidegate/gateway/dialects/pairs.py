"""Calls of tools and their results side by side: what stood between them comes after the results."""

from collections.abc import Mapping, Sequence

from tidegate.gateway.dialects.blocks import Block, Message, ToolCall, ToolResult

_Place = tuple[int, int]
"""Of a block: its message, and where it stands in it."""


def side_by_side(messages: tuple[Message, ...]) -> tuple[Message, ...]:
    """Each turn that calls tools, at once followed by its results, as chat completions and Anthropic demand.

    Everything else keeps its order, so what is appended to a conversation whose calls are answered is appended
    here, too. What has no counterpart stays where it is.
    """
    turns = _turns(messages)
    moved = {home: found for home, found in _results(turns).items() if not _follow(turns, home, found)}
    if not moved:
        return tuple(turns)
    taken = {place for found in moved.values() for place in found}
    written: list[Message] = []
    for at, turn in enumerate(turns):
        kept = tuple(block for index, block in enumerate(turn.blocks) if (at, index) not in taken)
        if kept or not turn.blocks:
            written.append(Message(turn.role, kept))
        if at in moved:
            written.append(Message("user", tuple(turns[place].blocks[index] for place, index in moved[at])))
    return tuple(written)


def calls_last(blocks: tuple[Block, ...]) -> tuple[Block, ...]:
    """A turn of the assistant whose last words are calls, if it calls at all: their results come next."""
    first = next((at for at, block in enumerate(blocks) if isinstance(block, ToolCall)), len(blocks))
    if first == len(blocks) or isinstance(blocks[-1], ToolCall):
        return blocks
    said = tuple(block for block in blocks[first:] if not isinstance(block, ToolCall))
    return (*blocks[:first], *said, *(block for block in blocks[first:] if isinstance(block, ToolCall)))


def _turns(messages: Sequence[Message]) -> list[Message]:
    """What the assistant says behind its calls, before anybody else speaks, belongs to their turn."""
    turns: list[Message] = []
    for message in messages:
        before = turns[-1] if turns and turns[-1].role == message.role == "assistant" else None
        if before is not None and any(isinstance(block, ToolCall) for block in before.blocks):
            turns[-1] = Message("assistant", before.blocks + message.blocks)
        else:
            turns.append(message)
    return turns


def _results(turns: Sequence[Message]) -> Mapping[int, list[_Place]]:
    """By turn, the results of its calls. Where an id came twice, a result belongs to the latest open call."""
    waiting: dict[str, list[int]] = {}
    found: dict[int, list[_Place]] = {}
    for at, turn in enumerate(turns):
        for index, block in enumerate(turn.blocks):
            if isinstance(block, ToolCall):
                waiting.setdefault(block.id, []).append(at)
            elif isinstance(block, ToolResult) and waiting.get(block.call_id):
                found.setdefault(waiting[block.call_id].pop(), []).append((at, index))
    return found


def _follow(turns: Sequence[Message], home: int, found: Sequence[_Place]) -> bool:
    """Is there nothing but results between a turn and the last of its own?"""
    between = turns[home + 1 : found[-1][0]]
    return all(
        turn.blocks and all(isinstance(block, ToolResult) for block in turn.blocks) for turn in between
    )
