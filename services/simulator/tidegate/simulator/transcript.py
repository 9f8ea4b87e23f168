"""The conversation so far: turns, results of tools, and what of it a vendor would refuse."""

from typing import NamedTuple

from tidegate.simulator import sealing
from tidegate.simulator.refusal import Refusal


class Seal(NamedTuple):
    """A signature in the history, and the refusal if it is not the provider's own; hidden thoughts have no text."""

    text: str | None
    found: str
    refusal: Refusal

    def is_own(self, seed: int) -> bool:
        """Whether the provider with this seed made it."""
        if self.text is None:
            return sealing.is_opaque(seed, self.found)
        return sealing.is_signed(seed, self.text, self.found)


class Talk(NamedTuple):
    """Assistant turns so far, the last result of a tool, signatures to verify, and the first mistake."""

    turns: int = 0
    result: str = ""
    seals: tuple[Seal, ...] = ()
    problem: Refusal | None = None


class Words(NamedTuple):
    """How a vendor complains: `{id}` and `{where}` are filled in. An empty text: it does not."""

    unanswered: str
    unexpected: str
    duplicate: str
    param: str


class Transcript:
    """Fed in the order of the conversation. `ordered`: a call's result must follow its turn at once."""

    def __init__(self, words: Words, *, ordered: bool) -> None:
        self._words = words
        self._ordered = ordered
        self._in_turn = False
        self._turns = 0
        self._result = ""
        self._open: dict[str, str] = {}
        self._calls: set[str] = set()
        self._ids: set[str] = set()
        self._seals: list[Seal] = []
        self._problem: Refusal | None = None

    def assistant(self, where: str) -> None:
        """The assistant speaks; messages of its in a row are one turn."""
        if not self._in_turn:
            self._leave(where)
            self._turns += 1
        self._in_turn = True

    def user(self, where: str) -> None:
        """Somebody else speaks."""
        self._in_turn = False
        self._leave(where)

    def between(self, where: str) -> None:
        """Something that is no result; nothing may stand between a call and its result where they are ordered."""
        self._leave(where)

    def call(self, identity: str, where: str) -> None:
        """The assistant called a tool."""
        if identity in self._calls and self._words.duplicate:
            self._complain(self._words.duplicate, identity, where)
        self._calls.add(identity)
        self._open[identity] = where

    def result(self, identity: str, text: str, where: str) -> None:
        """A tool's result came back."""
        self._in_turn = False
        self._result = text
        if self._open.pop(identity, None) is None and self._words.unexpected:
            self._complain(self._words.unexpected, identity, where)

    def item(self, identity: str, template: str) -> None:
        """An item with an id of its own, which must not come twice."""
        if identity in self._ids:
            self._complain(template, identity, "")
        self._ids.add(identity)

    def seal(self, seal: Seal) -> None:
        """A signature to verify."""
        self._seals.append(seal)

    def refuse(self, refusal: Refusal) -> None:
        """Something else that is wrong; the first mistake counts."""
        self._problem = self._problem or refusal

    def talk(self, where: str) -> Talk:
        """The end of the conversation."""
        self._leave(where, last=True)
        return Talk(self._turns, self._result, tuple(self._seals), self._problem)

    def _leave(self, where: str, *, last: bool = False) -> None:
        if self._open and (self._ordered or last):
            self._complain(self._words.unanswered, ", ".join(self._open), next(iter(self._open.values())))
            self._open.clear()

    def _complain(self, template: str, identity: str, where: str) -> None:
        text = template.format(id=identity, where=where)
        self.refuse(Refusal(400, text, param=self._words.param))
