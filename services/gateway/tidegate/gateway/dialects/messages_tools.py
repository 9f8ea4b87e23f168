"""Tools of Anthropic messages -> tools; those whose form Anthropic wrote and the client runs become functions."""

from typing import Any, NamedTuple

from tidegate.gateway.dialects.blocks import Tool
from tidegate.gateway.dialects.faults import Notes
from tidegate.gateway.dialects.fields import Fields
from tidegate.gateway.dialects.tool_choices import is_strict

_Schema = dict[str, Any]
_TEXT: _Schema = {"type": "string"}
_LINE: _Schema = {"type": "integer"}
_LINES: _Schema = {"type": "array", "items": {"type": "integer"}}


class _Known(NamedTuple):
    """What Anthropic's models know of a tool without being told."""

    description: str
    schema: _Schema


def _edits(commands: tuple[str, ...], **more: _Schema) -> _Schema:
    """Files are edited by commands; each takes some of the fields."""
    fields: _Schema = {
        "command": {"type": "string", "enum": [*commands]},
        "path": _TEXT,
        "view_range": _LINES,
        "file_text": _TEXT,
        "old_str": _TEXT,
        "new_str": _TEXT,
        "insert_line": _LINE,
        "insert_text": _TEXT,
    }
    return {"type": "object", "properties": fields | more, "required": ["command"]}


_EDITING = (
    "`view` shows the file or folder at `path`, of a file only the lines from and to in `view_range` where it is "
    "given; `create` writes `file_text` to `path`; `str_replace` replaces the one place that reads `old_str` by "
    "`new_str`; `insert` puts `insert_text` after the line `insert_line`, 0 being the beginning"
)
_KNOWN: dict[str, _Known] = {
    "bash_20250124": _Known(
        "Runs `command` in a bash session that lasts; `restart` begins a new one instead.",
        {"type": "object", "properties": {"command": _TEXT, "restart": {"type": "boolean"}}},
    ),
    "text_editor_20250728": _Known(
        f"Shows and edits text files. {_EDITING}.", _edits(("view", "create", "str_replace", "insert"))
    ),
    "memory_20250818": _Known(
        f"Keeps notes from one conversation to the next, as files under `/memories`: look there first. {_EDITING}; "
        "`delete` removes `path`; `rename` moves `old_path` to `new_path`.",
        _edits(
            ("view", "create", "str_replace", "insert", "delete", "rename"), old_path=_TEXT, new_path=_TEXT
        ),
    ),
}


def read(item: Fields, notes: Notes) -> Tool | None:
    """A tool; None for one that only Anthropic can run, which is noted. Raises RequestRefused."""
    kind = item.text("type") or "custom"
    known = _KNOWN.get(kind)
    if kind != "custom" and known is None:
        notes.drop(f"tools.{kind}")
        return None
    if known is None:
        description, schema = item.text("description"), item.json("input_schema")
    else:
        description, schema = known
        item.raw("max_characters")  # the client itself cuts what it shows
    strict = item.flag("strict")
    if strict and not is_strict(schema):
        notes.drop("tools.strict")
        strict = False
    tool = Tool(item.needed_text("name"), description, schema, strict, cache=item.json("cache_control"))
    for name in item.unread():
        notes.drop(f"tools.{name}")
    return tool
