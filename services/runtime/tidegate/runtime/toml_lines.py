"""Where in a TOML text a key stands: tomllib gives values, people need lines."""

import re

Path = tuple[str | int, ...]

_HEADER = re.compile(r"^\s*(\[{1,2})\s*([^\]]+?)\s*\]{1,2}\s*(?:#.*)?$")
_KEY = re.compile(
    r"^\s*((?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*')(?:\s*\.\s*(?:[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'))*)\s*="
)
_PART = re.compile(r"[A-Za-z0-9_-]+|\"[^\"]*\"|'[^']*'")


def line_map(text: str) -> dict[Path, int]:
    """Line number (from 1) of every table header and key of a TOML text, by path; array items by index.

    Keys inside inline tables and multi-line values are found at the line of the key that holds them.
    """
    lines: dict[Path, int] = {(): 1}
    counts: dict[Path, int] = {}
    table: Path = ()
    closing: str | None = None
    for number, line in enumerate(text.splitlines(), start=1):
        if closing is not None:
            if closing in line:
                closing = None
            continue
        header = _HEADER.match(line)
        if header:
            table = _table(_parts(header.group(2)), counts, is_array=header.group(1) == "[[")
            lines.setdefault(table, number)
            continue
        key = _KEY.match(line)
        if key:
            lines.setdefault(table + tuple(_parts(key.group(1))), number)
            value = line[key.end() :]
            closing = _open_quote(value)
    return lines


def line_of(lines: dict[Path, int], path: Path) -> int:
    """Line of a path, or of the nearest thing that holds it."""
    while path not in lines:
        path = path[:-1]
    return lines[path]


def _parts(dotted: str) -> list[str]:
    return [part.strip("\"'") for part in _PART.findall(dotted)]


def _table(parts: list[str], counts: dict[Path, int], *, is_array: bool) -> Path:
    path: Path = ()
    for index, part in enumerate(parts):
        path += (part,)
        if index == len(parts) - 1 and is_array:
            counts[path] = counts.get(path, -1) + 1
        if path in counts:
            path += (counts[path],)
    return path


def _open_quote(value: str) -> str | None:
    for quote in ('"""', "'''"):
        if value.count(quote) == 1:
            return quote
    return None
