"""The answer a provider makes up: its parts, length and ending, before any dialect writes it down."""

from collections.abc import Iterator, Mapping
from typing import Any, Literal, NamedTuple

import orjson

from tidegate.simulator.seeded import integer
from tidegate.simulator.tokens import BYTES_PER_TOKEN, TokenClasses, count

Finish = Literal["stop", "length", "tool", "refusal", "filter", "sequence"]
PartKind = Literal["reasoning", "redacted", "text", "refusal", "tool", "search", "found", "opened"]
"""A search is billed; what it found, and opening a page of that, are not."""
THOUGHT = frozenset({"reasoning", "redacted"})

# Every four bytes are one token, some of them letters of several bytes, none needing escapes in JSON.
_VOCABULARY = (
    "the and for you but not all can had her was one our out day get has him his how man new now old see two "
    "way who boy did its let put say she too use dad mom sun sea né où ça ïa 日 月 水 火 🌊🌙"
).encode()
_CELLS = tuple(
    _VOCABULARY[start : start + BYTES_PER_TOKEN] for start in range(0, len(_VOCABULARY), BYTES_PER_TOKEN)
)
_CORPUS_TOKENS = 512
_CONTINUATION_BITS, _CONTINUATION = 0xC0, 0x80
# Whole tokens around whole words, so that no cut falls into a letter.
_TOOL_OPEN, _TOOL_CLOSE = '{"que":"', '"  }'
MIN_TOOL_TOKENS = 3


class Piece(NamedTuple):
    """Some tokens of a part, in order."""

    text: str
    tokens: int


class Part(NamedTuple):
    """A stretch of one kind: its text (of a call: the arguments), and the tokens that are billed for it.

    `name` is that of a called tool, `custom` says that the tool takes free text. `seal` is the signature of
    shown thoughts, or all that is shown of redacted ones.
    """

    kind: PartKind
    text: str
    tokens: int
    name: str = ""
    custom: bool = False
    seal: str = ""

    def pieces(self, size_tokens: int) -> Iterator[Piece]:
        """The text, `size_tokens` at a time, never cut inside a letter."""
        data = self.text.encode()
        size, start, done = size_tokens * BYTES_PER_TOKEN, 0, 0
        while start < len(data):
            end = min(start + size, len(data))
            while end < len(data) and data[end] & _CONTINUATION_BITS == _CONTINUATION:
                end += 1
            upto = count(end)
            yield Piece(data[start:end].decode(), upto - done)
            start, done = end, upto


class Answer(NamedTuple):
    """A whole answer: what is billed, the model it names, its parts, and whether it shows its usage.

    `stop` is the stop sequence that ended it. `echo` are fields of the request that the answer
    repeats. `hidden_seal` stands for all its thoughts, encrypted. `service_tier` is how
    it was served, None the standard way.
    """

    id: str
    created_s: int
    model: str
    tokens: TokenClasses
    parts: tuple[Part, ...]
    finish: Finish
    show_usage: bool
    stop: str | None = None
    logprobs: bool = False
    echo: Mapping[str, Any] = {}
    hidden_seal: str = ""
    service_tier: str | None = None

    @property
    def silent_tokens(self) -> int:
        """Reasoning that is billed but not shown."""
        return max(self.tokens.reasoning - sum(part.tokens for part in self.parts if part.kind in THOUGHT), 0)

    def joined(self, kind: PartKind) -> str:
        """The texts of a kind, one after the other."""
        return "".join(part.text for part in self.parts if part.kind == kind)

    @property
    def calls(self) -> list[Part]:
        """The tool calls, in order."""
        return [part for part in self.parts if part.kind == "tool"]


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


def tool_input(part: Part) -> object:
    """The arguments of a tool call as a value; none at all are an empty object."""
    return orjson.loads(part.text) if part.text else {}


def call_id(answer: Answer, place: int) -> str:
    """What makes the id of the `place`-th call of an answer: the first one's is that of the answer."""
    return answer.id if place == 0 else f"{answer.id}{place:x}"
