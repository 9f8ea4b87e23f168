"""Schemas for answers and strict tools reach Anthropic as it takes them, and whoever asked is told of the change."""

from __future__ import annotations

from copy import deepcopy
from typing import Any

import pytest
from anthropic import transform_schema
from hypothesis import given
from hypothesis import strategies as st

from support.dialect_calls import sent
from tidegate.gateway.dialects.closed_schema import closed
from tidegate.gateway.dialects.faults import RequestRefused

CLOSED = {"type": "object", "properties": {"a": {"type": "string"}}, "additionalProperties": False}
OPEN = {"type": "object", "properties": {"a": {"type": "string"}}}
CASES: list[tuple[dict[str, Any], dict[str, Any]]] = [
    (OPEN, CLOSED),
    (OPEN | {"additionalProperties": True}, CLOSED),
    (OPEN | {"additionalProperties": {}}, CLOSED),
    ({"properties": {}}, {"properties": {}, "additionalProperties": False}),
    ({"type": ["object", "null"]}, {"type": ["object", "null"], "additionalProperties": False}),
    ({"type": "array", "items": OPEN}, {"type": "array", "items": CLOSED}),
    ({"anyOf": [OPEN, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
    ({"oneOf": [OPEN, {"type": "null"}]}, {"anyOf": [CLOSED, {"type": "null"}]}),
    ({"$ref": "#/$defs/x", "$defs": {"x": OPEN}}, {"$ref": "#/$defs/x", "$defs": {"x": CLOSED}}),
    (CLOSED | {"properties": {"a": OPEN}}, CLOSED | {"properties": {"a": CLOSED}}),
    (
        {"type": "integer", "description": "days", "minimum": 1, "maximum": 9},
        {"type": "integer", "description": "days\n\n{minimum: 1, maximum: 9}"},
    ),
    ({"type": "string", "maxLength": 3}, {"type": "string", "description": "{maxLength: 3}"}),
    ({"type": "string", "format": "byte"}, {"type": "string", "description": '{format: "byte"}'}),
    ({"type": "array", "minItems": 2}, {"type": "array", "description": "{minItems: 2}"}),
]
AS_THEY_ARE: list[dict[str, Any]] = [
    CLOSED,
    {"type": "array", "minItems": 1, "items": {"type": "string", "format": "uuid"}},
    {"enum": [{"type": "object"}]},
    {"const": {"minimum": 1}},
    CLOSED | {"properties": {"minimum": {"type": "string"}, "format": {"type": "string"}}},
    {"anyOf": "odd", "properties": {}, "additionalProperties": False},
    {"type": "array", "items": True},
]


@pytest.mark.parametrize(("schema", "made"), CASES)
def test_objects_are_closed_and_limits_are_said_in_words(
    schema: dict[str, Any], made: dict[str, Any]
) -> None:
    before = deepcopy(schema)
    assert closed(schema, "f") == made
    assert schema == before
    assert closed(made, "f") is made


@pytest.mark.parametrize("schema", AS_THEY_ARE)
def test_what_is_taken_already_stays_the_same_object(schema: dict[str, Any]) -> None:
    assert closed(schema, "f") is schema


def test_an_object_with_free_names_is_refused_by_the_clients_field() -> None:
    schema = {"type": "array", "items": {"type": "object", "additionalProperties": {"type": "string"}}}
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": schema}}
    with pytest.raises(RequestRefused, match="free names") as refused:
        sent("openai", "anthropic", response_format=form)
    assert refused.value.field == "response_format"


LEAVES = st.sampled_from([
    {"type": "string"}, {"type": "string", "format": "date"}, {"type": "string", "maxLength": 3, "format": "odd"},
    {"type": "integer", "minimum": 1}, {"type": "number", "multipleOf": 0.5, "description": "d"}, {"enum": ["a", 1]},
    {"type": "null"}, {"const": "x"}, {"$ref": "#/$defs/x"},
])  # fmt: skip


def _more(inner: st.SearchStrategy[Any]) -> st.SearchStrategy[Any]:
    objects = st.dictionaries(st.sampled_from(["a", "b", "format", "minimum"]), inner, max_size=3).flatmap(
        lambda properties: st.sampled_from([{}, {"additionalProperties": True}, {"minProperties": 1}, {"required": ["a"]}]).map(
            lambda extra: {"type": "object", "properties": properties, **extra}
        )
    )  # fmt: skip
    arrays = st.tuples(inner, st.sampled_from([{}, {"minItems": 1}, {"minItems": 3, "maxItems": 4}])).map(
        lambda made: {"type": "array", "items": made[0], **made[1]}
    )
    unions = st.tuples(st.sampled_from(["anyOf", "oneOf"]), st.lists(inner, min_size=1, max_size=3)).map(
        lambda made: {made[0]: made[1]}
    )
    return objects | arrays | unions


@given(st.recursive(LEAVES, _more, max_leaves=8))
def test_the_vendors_own_sdk_would_change_nothing_more(schema: dict[str, Any]) -> None:
    """Its `transform_schema` is what says how the interface wants a schema."""
    made = closed(schema, "f")
    assert transform_schema(deepcopy(made)) == made


def test_a_change_is_told_for_answers_and_for_strict_tools_only() -> None:
    form = {"type": "json_schema", "json_schema": {"name": "n", "schema": OPEN, "strict": False}}
    body, warnings = sent("openai", "anthropic", response_format=form)
    assert body["output_config"]["format"]["schema"] == CLOSED
    assert warnings == ("response_format.schema",)
    limited = CLOSED | {"properties": {"a": {"type": "string", "maxLength": 3}}}
    for strict in (True, False, None):
        tool = {"type": "function", "function": {"name": "f", "parameters": limited, "strict": strict}}
        body, warnings = sent("openai", "anthropic", tools=[tool])
        told = {"type": "string", "description": "{maxLength: 3}"}
        assert body["tools"][0]["input_schema"]["properties"]["a"] == (
            told if strict else {"type": "string", "maxLength": 3}
        )
        assert warnings == (("tools.strict.schema",) if strict else ())


def test_what_the_form_is_for_is_said_in_its_schema() -> None:
    form = {"type": "json_schema", "name": "n", "description": "a place", "schema": CLOSED}
    body, warnings = sent("openai-responses", "anthropic", text={"format": form})
    assert (body["output_config"]["format"]["schema"], warnings) == (CLOSED | {"description": "a place"}, ())
    own = CLOSED | {"description": "its own"}
    body, warnings = sent("openai-responses", "anthropic", text={"format": form | {"schema": own}})
    assert (body["output_config"]["format"]["schema"], warnings) == (own, ("response_format.description",))
