"""Named SQL: heads, parameters, audiences."""

import pytest

from tidegate.analytics.catalog import catalog, named, parse
from tidegate.analytics.errors import UnknownQuery

HEAD = "-- title: A question\n-- param: n BIGINT how many\n-- param: who VARCHAR required whose\nSELECT 1\n"


def test_every_file_is_a_query_and_uses_exactly_the_parameters_it_declares() -> None:
    assert len(catalog()) > 15
    for query in catalog().values():
        body = "\n".join(line for line in query.sql.splitlines() if not line.startswith("--"))
        used = {word.strip("(),:").split("::")[0].split(")")[0] for word in body.split() if "$" in word}
        assert {word.split("$")[1] for word in used} == {param.name for param in query.params}, query.name


def test_every_query_of_tenants_filters_by_the_tenant_that_asks() -> None:
    tenants = [query for query in catalog().values() if query.audience == "tenant"]
    assert tenants
    for query in tenants:
        assert "WHERE tenant = $tenant AND" in query.sql, query.name
        assert {param.name for param in query.params if param.required} >= {"tenant"}


def test_tenants_cannot_name_a_query_of_operators() -> None:
    assert named("spend_by_day").name == "spend_by_day"
    with pytest.raises(UnknownQuery, match="tenant_usage"):
        named("spend_by_day", "tenant")
    with pytest.raises(UnknownQuery) as refused:
        named("nothing", "tenant")
    assert "spend_by_day" not in str(refused.value)


def test_operators_can_name_all() -> None:
    assert named("tenant_usage").audience == "tenant"


def test_parameters_are_bound_by_type_and_left_out_ones_are_null() -> None:
    query = parse("q", HEAD)
    assert query.bind({"who": "me", "n": "9007199254740993"}) == {"n": 9007199254740993, "who": "me"}
    assert query.bind({"who": "me"}) == {"n": None, "who": "me"}


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({}, "needs the parameter 'who': whose"),
        ({"who": "me", "n": "many"}, "'n' is BIGINT, not 'many'"),
        ({"who": "me", "x": 1}, "no parameter x"),
    ],
)
def test_wrong_parameters_are_named(given: dict[str, object], message: str) -> None:
    with pytest.raises(UnknownQuery, match=message):
        parse("q", HEAD).bind(given)


@pytest.mark.parametrize(
    "text",
    [
        "SELECT 1",
        "-- title: x\n-- audience: everyone\nSELECT 1",
        "-- title: x\n-- audience: tenant\nSELECT 1",
        "-- title: x\n-- audience: tenant\n-- param: tenant VARCHAR who asks\nSELECT 1",
        "-- title: x\n-- param: n BLOB what\nSELECT 1",
    ],
)
def test_a_head_that_is_not_complete_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match="query q"):
        parse("q", text)
