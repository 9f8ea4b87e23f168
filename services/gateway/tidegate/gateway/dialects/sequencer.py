"""Blocks that an upstream fills in turns, put one behind the other: what comes early waits."""

from collections.abc import Hashable

import msgspec

from tidegate.gateway.dialects.blocks import Thinking
from tidegate.gateway.dialects.faults import AnswerMalformed
from tidegate.gateway.dialects.sink import BlockSink, Head

MAX_ANSWER_CHARACTERS = 32 * 1024 * 1024
"""As much as an answer without stream may have in bytes."""


class _Waiting(msgspec.Struct):
    head: Head
    pieces: list[str]
    proof: Thinking | None = None
    is_closed: bool = False


class Sequencer:
    """Keeps the order in which blocks were opened. Every block has a key of the decoder's choice, used once.

    Words and thinking that stay empty are left out, as they are when an answer is read whole.
    """

    __slots__ = ("_characters", "_sink", "_unopened", "_waiting", "current", "opened")

    def __init__(self, sink: BlockSink) -> None:
        self._sink = sink
        self._waiting: dict[Hashable, _Waiting] = {}
        self._characters = 0
        self._unopened: Head | None = None
        self.current: Hashable | None = None
        """The block that is being passed on."""
        self.opened: set[Hashable] = set()
        """Every block so far."""

    @property
    def is_anything_waiting(self) -> bool:
        """Does a block wait for the current one to end?"""
        return bool(self._waiting)

    def open(self, key: Hashable, head: Head) -> None:
        """A block starts; a key that was used before is ignored."""
        if key in self.opened:
            return
        self.opened.add(key)
        if self.current is None:
            self._start(key, head)
        else:
            self._waiting[key] = _Waiting(head, [])

    def piece(self, key: Hashable, text: str) -> None:
        """More of a block; empty text and blocks that ended or never began are ignored."""
        if not text:
            return
        self._characters += len(text)
        if self._characters > MAX_ANSWER_CHARACTERS:
            raise AnswerMalformed(f"the answer is longer than {MAX_ANSWER_CHARACTERS} characters")
        if key == self.current:
            self._pass_on(text)
        elif (waiting := self._waiting.get(key)) is not None and not waiting.is_closed:
            waiting.pieces.append(text)

    def close(self, key: Hashable, proof: Thinking | None = None) -> None:
        """A block ends; those that waited for it go on."""
        if key == self.current:
            self._end(proof)
            self._go_on()
        elif (waiting := self._waiting.get(key)) is not None and not waiting.is_closed:
            waiting.is_closed, waiting.proof = True, proof

    def close_all(self) -> None:
        """No more will come."""
        while self.current is not None:
            self.close(self.current)

    def _go_on(self) -> None:
        while self.current is None and self._waiting:
            key = next(iter(self._waiting))
            waiting = self._waiting.pop(key)
            self._start(key, waiting.head)
            for text in waiting.pieces:
                self._pass_on(text)
            if waiting.is_closed:
                self._end(waiting.proof)

    def _start(self, key: Hashable, head: Head) -> None:
        self.current = key
        if head.kind == "tool" or head.redacted is not None:
            self._sink.open(head)
        else:
            self._unopened = head

    def _pass_on(self, text: str) -> None:
        if self._unopened is not None:
            self._sink.open(self._unopened)
            self._unopened = None
        self._sink.piece(text)

    def _end(self, proof: Thinking | None) -> None:
        self.current = None
        if self._unopened is not None and proof is not None:
            self._sink.open(self._unopened)
            self._unopened = None
        if self._unopened is None:
            self._sink.close(proof)
        self._unopened = None
