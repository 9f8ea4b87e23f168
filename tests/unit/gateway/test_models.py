"""What `GET /v1/models` says of routes, in both vendors' shapes, page by page; the SDKs read it in tests/e2e."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from tidegate.events.config import Candidate, Route, Target
from tidegate.events.types import RouteName, TargetId
from tidegate.gateway import models
from tidegate.gateway.errors import GatewayError


def target(name: str, **fields: Any) -> Target:
    values: dict[str, Any] = {"dialect": "openai", "base_url": "https://x.test", "model": "m", **fields}
    return Target(id=TargetId(name), **values)


TARGETS = {
    each.id: each
    for each in (
        target("big", dialect="anthropic", context_window=200_000, max_output_tokens=64_000),
        target(
            "small",
            also_speaks=("anthropic",),
            context_window=128_000,
            vision=False,
            documents=False,
            reasoning=False,
        ),
        target("off", enabled=False, tools=False),
    )
}
ROUTES = {"a": ("big",), "b": ("small", "off"), "both": ("big", "small"), "closed": ("off",), "d": ("small",)}


def serving() -> Any:
    """As much of the config in force as is read."""
    routes = {
        RouteName(name): Route(
            name=RouteName(name), candidates=tuple(Candidate(target=TargetId(t)) for t in targets)
        )
        for name, targets in ROUTES.items()
    }
    return SimpleNamespace(
        routes=routes, targets={name: SimpleNamespace(config=config) for name, config in TARGETS.items()}
    )


def key(*forbidden: str) -> Any:
    return SimpleNamespace(may_use=lambda route: route not in forbidden)


def names(**page: str) -> tuple[list[str], bool, str | None, str | None]:
    found = models.listed(serving(), {}, key(), "anthropic", page)
    return [each["id"] for each in found["data"]], found["has_more"], found["first_id"], found["last_id"]


def test_openai_lists_every_route_that_the_key_may_use_and_some_target_serves() -> None:
    found = models.listed(serving(), {}, key("d"), "openai", {})
    assert found["object"] == "list"
    assert [each["id"] for each in found["data"]] == ["a", "b", "both"]
    assert {(each["object"], each["owned_by"]) for each in found["data"]} == {("model", "tidegate")}


@pytest.mark.parametrize(
    ("switches", "expected"),
    [
        ({}, {"a": 64_000, "both": 64_000, "d": None, "b": None}),
        ({"big": True}, {"both": None, "d": None, "b": None}),
        ({"small": True}, {"a": 64_000, "both": 64_000}),
        ({"small": True, "big": True}, {}),
        ({"off": False}, {"a": 64_000, "b": None, "both": 64_000, "closed": None, "d": None}),
        ({"small": True, "off": False}, {"a": 64_000, "b": None, "both": 64_000, "closed": None}),
        ({"big": False, "elsewhere": True}, {"a": 64_000, "both": 64_000, "d": None, "b": None}),
    ],
)
def test_kill_switches_close_and_open_targets_as_they_do_for_requests(
    switches: dict[Any, bool], expected: dict[str, int | None]
) -> None:
    found = models.listed(serving(), switches, key(), "openai", {})
    told = {each["id"]: each["tidegate"]["capabilities"] for each in found["data"]}
    assert {name: can["max_output_tokens"]["any"] for name, can in told.items()} == expected
    for name in ROUTES:
        if name in expected:
            assert models.one(serving(), switches, key(), "anthropic", name)["id"] == name
        else:
            with pytest.raises(GatewayError):
                models.one(serving(), switches, key(), "anthropic", name)


def test_a_target_that_a_switch_opens_is_told_with_what_it_can() -> None:
    opened = models.one(serving(), {TargetId("off"): False}, key(), "openai", "b")
    assert opened["tidegate"]["capabilities"]["tools"] == {"all": False, "any": True}


@pytest.mark.parametrize(
    ("page", "expected"),
    [
        ({}, (["a", "b", "both", "d"], False, "a", "d")),
        ({"limit": "2"}, (["a", "b"], True, "a", "b")),
        ({"limit": "2", "after_id": "b"}, (["both", "d"], False, "both", "d")),
        ({"limit": "1", "before_id": "both"}, (["b"], True, "b", "b")),
        ({"limit": "9", "before_id": "b"}, (["a"], False, "a", "a")),
        ({"after_id": "d"}, ([], False, None, None)),
        ({"after_id": "nobody"}, (["a", "b", "both", "d"], False, "a", "d")),
    ],
)
def test_anthropic_lists_page_by_page(page: dict[str, str], expected: Any) -> None:
    assert names(**page) == expected


@pytest.mark.parametrize("limit", ["0", "1001", "-1", "", "ten", "１", "10000"])
def test_a_limit_that_is_none_is_refused_by_name(limit: str) -> None:
    with pytest.raises(GatewayError) as refused:
        names(limit=limit)
    assert (refused.value.code, refused.value.param) == ("body_invalid", "limit")


def test_one_route_is_told_in_both_shapes() -> None:
    plain = models.one(serving(), {}, key(), "openai", "both")
    assert plain["tidegate"]["capabilities"]["context_window"] == {"all": 128_000, "any": 200_000}
    shown = models.one(serving(), {}, key(), "anthropic", "both")
    assert (shown["type"], shown["max_input_tokens"], shown["max_tokens"]) == ("model", 128_000, None)


@pytest.mark.parametrize("name", ["closed", "nowhere", "a"])
def test_a_route_that_is_not_there_for_this_key_is_unknown(name: str) -> None:
    with pytest.raises(GatewayError) as refused:
        models.one(serving(), {}, key("a"), "openai", name)
    assert refused.value.code == "route_unknown"


def test_what_some_do_not_say_is_not_known_of_all() -> None:
    can = models.capabilities([TARGETS[TargetId("big")], TARGETS[TargetId("small")]])
    assert can["max_output_tokens"] == {"all": None, "any": 64_000}
    assert can["vision"] == {"all": False, "any": True}
    assert can["documents"] == {"all": False, "any": True}
    assert can["input_modalities"] == {"all": ["text"], "any": ["document", "image", "text"]}
    assert can["dialects"] == {"all": ["anthropic"], "any": ["anthropic", "openai"]}
    assert models.capabilities([target("x")])["context_window"] == {"all": None, "any": None}
