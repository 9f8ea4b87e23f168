"""What can go wrong in translation: a request that cannot be said in the other dialect, an answer nobody can read."""


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
        """Note that `name` could not be passed on. Only short plain names: they end in a header."""
        self._names[name] = None

    def names(self) -> tuple[str, ...]:
        """All names so far."""
        return tuple(self._names)
