"""Named SQL: one question per file in `queries/`, its parameters named in the comments at its head.

Head lines: `-- title: …`, `-- audience: operator|tenant`, `-- param: name TYPE [required] meaning`,
`-- brief: column[=heading], …` (what people are shown unless they ask for all of it).
"""

import re
from collections.abc import Mapping
from functools import cache
from importlib import resources
from typing import Any, Literal

import msgspec

from tidegate.analytics.errors import UnknownQuery

Audience = Literal["operator", "tenant"]
Value = int | float | str | bool | None

_HEAD = re.compile(r"^-- (title|audience|param|brief): (.+)$", re.MULTILINE)
_PARAM = re.compile(r"^(\w+) (BIGINT|DOUBLE|VARCHAR) (required )?(.+)$")
_PARSE: dict[str, type[int] | type[float] | type[str]] = {"BIGINT": int, "DOUBLE": float, "VARCHAR": str}


class Param(msgspec.Struct, frozen=True):
    """A parameter; one that is not required is null when left out, and then filters nothing."""

    name: str
    type: str
    required: bool
    meaning: str


class NamedQuery(msgspec.Struct, frozen=True):
    """A question with a name. A `tenant` query answers for one tenant only: `tenant` is required."""

    name: str
    title: str
    audience: Audience
    params: tuple[Param, ...]
    sql: str
    brief: tuple[tuple[str, str], ...] = ()
    """(column, heading): few enough for one line of a terminal. Empty: all columns are."""

    def bind(self, given: Mapping[str, Any]) -> dict[str, Value]:
        """Every parameter with its value, text converted to its type. Raises UnknownQuery."""
        unknown = given.keys() - {param.name for param in self.params}
        if unknown:
            raise UnknownQuery(f"query {self.name!r} has no parameter {', '.join(sorted(unknown))}")
        return {param.name: self._value(param, given.get(param.name)) for param in self.params}

    def _value(self, param: Param, value: Any) -> Value:
        if value is None:
            if param.required:
                raise UnknownQuery(f"query {self.name!r} needs the parameter {param.name!r}: {param.meaning}")
            return None
        try:
            return _PARSE[param.type](value)
        except ValueError as error:
            raise UnknownQuery(f"parameter {param.name!r} is {param.type}, not {value!r}") from error


@cache
def catalog() -> dict[str, NamedQuery]:
    """All named queries, by name."""
    files = resources.files("tidegate.analytics").joinpath("queries").iterdir()
    queries = [
        parse(file.name.removesuffix(".sql"), file.read_text("utf-8"))
        for file in files
        if file.name.endswith(".sql")
    ]
    return {query.name: query for query in sorted(queries, key=lambda query: query.name)}


def named(name: str, audience: Audience = "operator") -> NamedQuery:
    """The query of this name; tenants get tenant queries only, operators all. Raises UnknownQuery."""
    query = catalog().get(name)
    if query is None or (audience == "tenant" and query.audience != "tenant"):
        known = ", ".join(q.name for q in catalog().values() if audience in {"operator", q.audience})
        raise UnknownQuery(f"no query is named {name!r}; there are {known}")
    return query


def parse(name: str, text: str) -> NamedQuery:
    """A query from its file. Raises ValueError for a head that is not complete."""
    head: dict[str, list[str]] = {}
    for key, value in _HEAD.findall(text):
        head.setdefault(key, []).append(value)
    params = tuple(_param(name, line) for line in head.get("param", ()))
    audience = head.get("audience", ["operator"])[0]
    brief = tuple(_brief(each) for line in head.get("brief", ()) for each in line.split(", "))
    if "title" not in head or audience not in {"operator", "tenant"}:
        raise ValueError(f"query {name} needs a title and an audience of operator or tenant")
    if audience == "tenant" and not any(param.name == "tenant" and param.required for param in params):
        raise ValueError(f"query {name} is for tenants and must require the parameter tenant")
    return NamedQuery(
        name, head["title"][0], "tenant" if audience == "tenant" else "operator", params, text, brief
    )


def _brief(text: str) -> tuple[str, str]:
    column, _, heading = text.partition("=")
    return column, heading or column


def _param(query: str, line: str) -> Param:
    found = _PARAM.match(line)
    if found is None:
        raise ValueError(f"query {query} has a parameter that cannot be read: {line!r}")
    name, kind, required, meaning = found.groups()
    return Param(name, kind, required is not None, meaning)
