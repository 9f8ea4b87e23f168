"""Typed access to a JSON object that knows its place, and which of its fields nobody has asked for."""

from collections.abc import Callable, Iterator
from typing import Any

from tidegate.gateway.dialects.faults import AnswerMalformed, RequestRefused

Fault = Callable[[str, str], Exception]


def _malformed(field: str, reason: str) -> Exception:
    return AnswerMalformed(f"`{field}` {reason}")


class Fields:
    """A JSON object of a client's request; null counts as absent. A wrong type raises RequestRefused."""

    __slots__ = ("_fault", "_inner", "_path", "_read", "_values")

    def __init__(self, value: Any, path: str, fault: Fault = RequestRefused) -> None:
        if not isinstance(value, dict):
            raise fault(path or "body", "must be an object")
        self._values: dict[str, Any] = value
        self._read: list[str] = []
        self._inner: dict[str, Fields] = {}
        self._path = path
        self._fault = fault

    def place(self, name: str) -> str:
        """The full name of a field, for messages."""
        return f"{self._path}.{name}" if self._path else name

    def wrong(self, name: str, reason: str) -> Exception:
        """The error to raise when a field cannot be used."""
        return self._fault(self.place(name), reason)

    def raw(self, name: str) -> Any:
        """The value as it is; None when absent."""
        self._read.append(name)
        return self._values.get(name)

    def text(self, name: str) -> str | None:
        """A string."""
        value = self.raw(name)
        if value is None or isinstance(value, str):
            return value
        raise self.wrong(name, "must be a string")

    def needed_text(self, name: str) -> str:
        """A string that must be there."""
        value = self.text(name)
        if value is None:
            raise self.wrong(name, "is missing")
        return value

    def number(self, name: str) -> float | None:
        """A number; whole ones stay whole."""
        value = self.raw(name)
        if value is None or (isinstance(value, int | float) and not isinstance(value, bool)):
            return value
        raise self.wrong(name, "must be a number")

    def integer(self, name: str) -> int | None:
        """A whole number."""
        value = self.raw(name)
        if value is None or type(value) is int:
            return value
        raise self.wrong(name, "must be a whole number")

    def flag(self, name: str) -> bool | None:
        """True or false."""
        value = self.raw(name)
        if value is None or isinstance(value, bool):
            return value
        raise self.wrong(name, "must be true or false")

    def list(self, name: str) -> list[Any]:
        """A list; empty when absent."""
        value = self.raw(name)
        if value is None:
            return []
        if isinstance(value, list):
            return value
        raise self.wrong(name, "must be a list")

    def json(self, name: str) -> dict[str, Any] | None:
        """An object that is passed on as it is."""
        value = self.raw(name)
        if value is None or isinstance(value, dict):
            return value
        raise self.wrong(name, "must be an object")

    def inner(self, name: str) -> "Fields | None":
        """An object that is looked into."""
        value = self.raw(name)
        if value is None:
            return None
        if name not in self._inner:
            self._inner[name] = Fields(value, self.place(name), self._fault)
        return self._inner[name]

    def each(self, name: str) -> "Iterator[Fields]":
        """The objects of a list."""
        for index, value in enumerate(self.list(name)):
            yield Fields(value, f"{self.place(name)}[{index}]", self._fault)

    def unread(self) -> tuple[str, ...]:
        """Names of fields that have a value and were not asked for."""
        return tuple(
            name for name, value in self._values.items() if value is not None and name not in self._read
        )

    def unread_inside(self) -> "Iterator[str]":
        """The same of all objects that were looked into, by their full names; not of those in lists."""
        for inner in self._inner.values():
            yield from map(inner.place, inner.unread())
            yield from inner.unread_inside()


def answer_fields(value: Any, path: str) -> Fields:
    """Fields of an upstream's answer: a wrong type raises AnswerMalformed."""
    return Fields(value, path, _malformed)
