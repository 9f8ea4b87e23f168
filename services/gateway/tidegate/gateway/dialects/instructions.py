"""System and developer messages: words in every dialect; what they show beside goes to the user's side."""

from collections.abc import Iterable, Sequence

from tidegate.gateway.dialects.blocks import Block, Message, Text
from tidegate.gateway.dialects.faults import Notes

_INSTRUCTING = {"system", "developer"}


def split(messages: Sequence[Message], notes: Notes) -> tuple[tuple[Text, ...], tuple[Message, ...]]:
    """The words of the instructions before the first turn, and the rest, in which instructions are words only."""
    first = next(
        (at for at, message in enumerate(messages) if message.role not in _INSTRUCTING), len(messages)
    )
    words, shown = _parted(block for message in messages[:first] for block in message.blocks)
    return words, (*_for_user(shown, notes), *worded(messages[first:], notes))


def worded(messages: Iterable[Message], notes: Notes) -> tuple[Message, ...]:
    """The same messages; pictures, files and their like that stood in instructions follow them as the user's."""
    found: list[Message] = []
    for message in messages:
        if message.role not in _INSTRUCTING:
            found.append(message)
            continue
        words, shown = _parted(message.blocks)
        if words or not shown:
            found.append(Message(message.role, words))
        found += _for_user(shown, notes)
    return tuple(found)


def _for_user(shown: tuple[Block, ...], notes: Notes) -> list[Message]:
    if not shown:
        return []
    notes.drop("messages.role.system")
    return [Message("user", shown)]


def _parted(blocks: Iterable[Block]) -> tuple[tuple[Text, ...], tuple[Block, ...]]:
    words: list[Text] = []
    others: list[Block] = []
    for block in blocks:
        if isinstance(block, Text):
            words.append(block)
        else:
            others.append(block)
    return tuple(words), tuple(others)
