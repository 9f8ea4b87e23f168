"""JSON schemas as Anthropic's structured outputs take them: objects closed, limits in words instead of keywords."""

import json
from collections.abc import Callable
from typing import Any

from tidegate.gateway.dialects.faults import RequestRefused

_FORMATS = (*("date-time", "time", "date", "duration", "email", "hostname", "uri", "ipv4", "ipv6", "uuid"),)
_LIMITS = (
    *("minimum", "maximum", "exclusiveMinimum", "exclusiveMaximum", "multipleOf"),
    *("minLength", "maxLength", "maxItems", "uniqueItems", "minProperties", "maxProperties"),
)
"""Keywords that it refuses (its guide to structured outputs, under limitations)."""
_NAMED = ("properties", "$defs", "definitions")
_LISTED = ("anyOf", "allOf", "prefixItems")
Schema = dict[str, Any]


def closed(schema: Schema, field: str) -> Schema:
    """The schema with `additionalProperties: false` on every object, and what is not taken moved to descriptions, as
    the vendor's own SDKs do; the same object where nothing had to change. `field` is named in refusals.

    What is left admits fewer answers, or as many: never one that the given schema forbids in structure.
    Raises RequestRefused for objects whose names are free: closed they could only be empty.
    """
    made = _walked(schema, field)
    return schema if made == schema else made


def _walked(schema: Any, field: str) -> Any:
    if not isinstance(schema, dict):
        return schema
    made: Schema = {}
    for name, value in schema.items():
        if name in _NAMED and isinstance(value, dict):
            made[name] = {key: _walked(inner, field) for key, inner in value.items()}
        elif name in _LISTED and isinstance(value, list):
            made[name] = [_walked(inner, field) for inner in value]
        elif name == "oneOf" and isinstance(value, list) and "anyOf" not in schema:
            made["anyOf"] = [_walked(inner, field) for inner in value]
        else:
            made[name] = _walked(value, field) if name == "items" else value
    return _told(_closed(made, field))


def _closed(schema: Schema, field: str) -> Schema:
    kinds = schema.get("type")
    if (
        kinds != "object"
        and not (isinstance(kinds, list) and "object" in kinds)
        and "properties" not in schema
    ):
        return schema
    others = schema.get("additionalProperties")
    if isinstance(others, dict) and others:
        raise RequestRefused(field, "the upstream takes no objects whose properties have free names")
    return schema | {"additionalProperties": False}


def _told(schema: Schema) -> Schema:
    moved = {name: value for name, value in schema.items() if _is_moved(name, value)}
    if not moved:
        return schema
    words = "{" + ", ".join(f"{name}: {json.dumps(value)}" for name, value in moved.items()) + "}"
    before = schema.get("description")
    kept = {name: value for name, value in schema.items() if name not in moved}
    return kept | {"description": f"{before}\n\n{words}" if isinstance(before, str) else words}


_MOVED: dict[str, Callable[[Any], bool]] = {
    "format": lambda value: value not in _FORMATS,
    "minItems": lambda value: value not in {0, 1},
}


def _is_moved(name: str, value: Any) -> bool:
    decide = _MOVED.get(name)
    return name in _LIMITS if decide is None else isinstance(value, str | int) and decide(value)
