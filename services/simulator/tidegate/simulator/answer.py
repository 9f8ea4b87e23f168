"""The answer a provider makes up: its text, length and ending, before any dialect writes it down."""

from collections.abc import Iterator
from typing import Literal, NamedTuple

import orjson

from tidegate.simulator.seeded import integer
from tidegate.simulator.tokens import BYTES_PER_TOKEN, TokenClasses

Finish = Literal["stop", "length", "tool"]

# Every four bytes are one token, some of them letters of several bytes, none needing escapes in JSON.
_VOCABULARY = (
    "the and for you but not all can had her was one our out day get has him his how man new now old see two "
    "way who boy did its let put say she too use dad mom sun sea né où ça ïa 日 月 水 火 🌊🌙"
).encode()
_CELLS = tuple(
    _VOCABULARY[start : start + BYTES_PER_TOKEN] for start in range(0, len(_VOCABULARY), BYTES_PER_TOKEN)
)
_CORPUS_TOKENS = 512
# Whole tokens around whole words, so that no cut falls into a letter.
_TOOL_OPEN, _TOOL_CLOSE = '{"que":"', '"  }'
MIN_TOOL_TOKENS = 3


class Piece(NamedTuple):
    """Some tokens of the answer, in order."""

    kind: Literal["reasoning", "text", "tool"]
    text: str
    tokens: int


class Answer(NamedTuple):
    """A whole answer: what is billed, the model it names, its parts, and whether it shows its usage."""

    id: str
    created_s: int
    model: str
    tokens: TokenClasses
    reasoning: str
    text: str
    tool: str | None
    finish: Finish
    show_usage: bool

    def pieces(self, size_tokens: int) -> Iterator[Piece]:
        """Visible reasoning, then text or tool arguments, `size_tokens` at a time."""
        yield from _cut("reasoning", self.reasoning, size_tokens)
        yield from _cut("text" if self.tool is None else "tool", self.text, size_tokens)

    @property
    def silent_tokens(self) -> int:
        """Reasoning that is billed but not shown."""
        return 0 if self.reasoning else self.tokens.reasoning


class Writer:
    """Makes texts of exact token counts out of a seeded corpus."""

    def __init__(self, seed: int) -> None:
        cells = (_CELLS[integer(seed, f"word/{place}") % len(_CELLS)] for place in range(_CORPUS_TOKENS))
        self._corpus = b"".join(cells)

    def text(self, start: int, tokens: int) -> str:
        """`tokens` words from a place in the corpus, going round."""
        offset = start % _CORPUS_TOKENS * BYTES_PER_TOKEN
        size = tokens * BYTES_PER_TOKEN
        rounds = -(-(offset + size) // len(self._corpus))
        return (self._corpus * rounds)[offset : offset + size].decode()

    def arguments(self, start: int, tokens: int) -> str:
        """A JSON object of `tokens` (at least 3) tokens, as the arguments of a tool call."""
        return _TOOL_OPEN + self.text(start, tokens - MIN_TOOL_TOKENS) + _TOOL_CLOSE


def tool_input(answer: Answer) -> object:
    """The arguments of a tool call as an object."""
    return orjson.loads(answer.text)


def _cut(kind: Literal["reasoning", "text", "tool"], text: str, size_tokens: int) -> Iterator[Piece]:
    data = text.encode()
    size = size_tokens * BYTES_PER_TOKEN
    for start in range(0, len(data), size):
        part = data[start : start + size]
        yield Piece(kind, part.decode(), len(part) // BYTES_PER_TOKEN)
