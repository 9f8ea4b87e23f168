"""Names and ids of tools made to fit the upstream's rules, always in the same way, and back again."""

import re
from hashlib import blake2b

_NOT_PLAIN = re.compile(r"[^a-zA-Z0-9_-]")
_SHORT = re.compile(r"[a-zA-Z0-9]{9}")
_DIGEST_BYTES = 4
MAX_ID_CHARACTERS = 64


def fitted(name: str, max_characters: int) -> str:
    """`name` if it is made of letters, digits, `_` and `-` and short enough, else a stand-in with its digest."""
    if name and len(name) <= max_characters and not _NOT_PLAIN.search(name):
        return name
    digest = blake2b(name.encode("utf-8", "surrogatepass"), digest_size=_DIGEST_BYTES).hexdigest()
    return f"{_NOT_PLAIN.sub('_', name)[: max_characters - len(digest) - 1]}_{digest}"


def fitted_id(call_id: str) -> str:
    """A tool call's id that both vendors take."""
    return fitted(call_id, MAX_ID_CHARACTERS)


def short_id(call_id: str) -> str:
    """Nine letters and digits for a tool call, always the same for the same id."""
    if _SHORT.fullmatch(call_id):
        return call_id
    return blake2b(call_id.encode("utf-8", "surrogatepass"), digest_size=5).hexdigest()[:9]


class ToolNames:
    """Tool names for one upstream request; `back` maps what the upstream says to what the client said."""

    __slots__ = ("_max_characters", "back")

    def __init__(self, max_characters: int) -> None:
        self._max_characters = max_characters
        self.back: dict[str, str] = {}

    def out(self, name: str) -> str:
        """The name for the upstream."""
        sent = fitted(name, self._max_characters)
        if sent != name:
            self.back[sent] = name
        return sent


_NAMESPACE_END = "\x1f"
"""Stands between a namespace and a name inside the model; no dialect allows it in either."""


def join_namespace(namespace: str | None, name: str) -> str:
    """One name of the two that responses keep apart."""
    return f"{namespace}{_NAMESPACE_END}{name}" if namespace else name


def split_namespace(name: str) -> tuple[str | None, str]:
    """The inverse of `join_namespace`."""
    namespace, found, inner = name.partition(_NAMESPACE_END)
    return (namespace, inner) if found else (None, name)
