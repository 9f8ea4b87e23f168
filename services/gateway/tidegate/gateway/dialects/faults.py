"""What can go wrong in translation: a request that cannot be said in the other dialect, an answer nobody can read."""

import re

_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9_.-]")
_MAX_NAMES = 32
_MAX_CHARACTERS = 64
_MORE = "more"
"""Stands for all names behind the last that has room."""

STORED_FILE = "a file stored at one provider cannot be read by another: send its content, or a URL"


class RequestRefused(ValueError):
    """The request cannot be translated without changing its meaning, or is malformed.

    `field` names the client's field; the text is safe to show.
    """

    def __init__(self, field: str, reason: str) -> None:
        super().__init__(f"`{field}`: {reason}")
        self.field = field
        self.reason = reason


class AnswerMalformed(ValueError):
    """The upstream's answer does not follow its dialect; the text names what is wrong and holds no content."""


class Notes:
    """Names of what was left out of a translation, each once, in the order they were met."""

    __slots__ = ("_names",)

    def __init__(self) -> None:
        self._names: dict[str, None] = {}

    def drop(self, name: str) -> None:
        """Note that `name` could not be passed on. Names are made short and plain: they end in a header."""
        plain = _NOT_PLAIN.sub("_", name)[:_MAX_CHARACTERS]
        self._names[plain if plain in self._names or len(self._names) < _MAX_NAMES - 1 else _MORE] = None

    def names(self) -> tuple[str, ...]:
        """All names so far."""
        return tuple(self._names)
