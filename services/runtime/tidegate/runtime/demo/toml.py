"""Writes TOML, which the standard library only reads: tables, lists of tables, and plain values. Pure."""

import json
from collections.abc import Iterator, Mapping, Sequence
from typing import Any


def dumps(document: Mapping[str, Any]) -> str:
    """The document as TOML. Keys must be bare; None is not TOML and raises ValueError naming its key."""
    return "\n".join(_table(document, ())) + "\n"


def _table(table: Mapping[str, Any], path: tuple[str, ...]) -> Iterator[str]:
    nested = {key: value for key, value in table.items() if isinstance(value, Mapping) or _is_tables(value)}
    for key, value in table.items():
        if key not in nested:
            yield f"{key} = {_value(value, (*path, key))}"
    for key, value in nested.items():
        inner = (*path, key)
        name = ".".join(inner)
        if isinstance(value, Mapping):
            yield f"\n[{name}]"
            yield from _table(value, inner)
        else:
            for entry in value:
                yield f"\n[[{name}]]"
                yield from _table(entry, inner)


def _is_tables(value: Any) -> bool:
    return isinstance(value, Sequence) and bool(value) and all(isinstance(entry, Mapping) for entry in value)


def _value(value: Any, path: tuple[str, ...]) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, str):
        # A JSON string is a TOML basic string, but for DEL, which TOML wants escaped.
        return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
    if isinstance(value, int | float):
        return repr(value)
    if isinstance(value, Sequence):
        return "[" + ", ".join(_value(entry, path) for entry in value) + "]"
    raise ValueError(f"{'.'.join(path)}: {type(value).__name__} cannot be written as TOML")
