"""Config structs: the published part survives a round trip, and a misspelt field is an error."""

import json
from pathlib import Path
from typing import Any

import msgspec
import pytest

from tidegate.events import config
from tidegate.events.config import DatedPrice, Pool, Routing, Settings, Target
from tidegate.events.money import ListPrice
from tidegate.events.types import PoolId

SAMPLE = Path(__file__).parents[2] / "contract" / "golden" / "ConfigPublished.v1.json"


@pytest.fixture
def routing() -> dict[str, Any]:
    published: dict[str, Any] = json.loads(SAMPLE.read_bytes())["data"]["routing"]
    return published


def target(**fields: Any) -> Target:
    return Target(**{"id": "t", "dialect": "openai", "base_url": "http://x", "model": "m", **fields})


def test_a_routing_survives_the_round_trip(routing: dict[str, Any]) -> None:
    first = msgspec.convert(routing, Routing)
    again = msgspec.json.decode(msgspec.json.encode(first), type=Routing)
    assert again == first
    assert again.digest() == first.digest()
    assert json.loads(msgspec.json.encode(first)) == routing


def test_settings_publish_exactly_what_decides(routing: dict[str, Any]) -> None:
    settings = msgspec.convert({**routing, "data_dir": "elsewhere", "durability": "fast"}, Settings)
    assert settings.routing() == msgspec.convert(routing, Routing)
    assert settings.routing().digest() == msgspec.convert(routing, Routing).digest()


def test_another_routing_has_another_digest(routing: dict[str, Any]) -> None:
    digest = msgspec.convert(routing, Routing).digest()
    assert digest.startswith("sha256:")
    routing["routes"][0]["max_attempts"] += 1
    assert msgspec.convert(routing, Routing).digest() != digest


def paths(value: Any, here: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    """Every table within a config."""
    if isinstance(value, dict):
        return [here] + [path for key, inner in value.items() for path in paths(inner, (*here, key))]
    if isinstance(value, list):
        return [path for index, inner in enumerate(value) for path in paths(inner, (*here, index))]
    return []


def test_a_misspelt_field_is_an_error_in_every_table(routing: dict[str, Any]) -> None:
    whole: dict[str, Any] = {**routing, "gateway": {}, "log": {}, "admin": {}, "estimator": {}}
    assert len(paths(whole)) >= 12
    for path in paths(whole):
        wrong = json.loads(json.dumps(whole))
        table = wrong
        for step in path:
            table = table[step]
        table["misspelt"] = 1
        with pytest.raises(msgspec.ValidationError, match="misspelt"):
            msgspec.convert(wrong, Settings)


def test_a_published_routing_of_a_newer_version_can_still_be_read(routing: dict[str, Any]) -> None:
    """Only its top level: what decides within a table must never be ignored."""
    assert msgspec.convert({**routing, "later": []}, Routing) == msgspec.convert(routing, Routing)


@pytest.mark.parametrize(
    ("kind", "fields"),
    [
        (config.Window, {"id": "w", "unit": "requests", "limit": 0, "duration_s": 1.0}),
        (config.Window, {"id": "w", "unit": "euros", "limit": 1, "duration_s": 1.0}),
        (config.Window, {"id": "w", "unit": "requests", "limit": 1, "duration_s": 0.0}),
        (config.Pool, {"id": "p", "admit_quantile": 1.0}),
        (config.DatedPrice, {"output": -1}),
        (config.Candidate, {"target": "t", "grade": -1}),
        (config.Key, {"id": "k", "tenant": "t", "digest": "sha256:beef"}),
        (config.Key, {"id": "k", "tenant": "t", "digest": "sk-plain-secret"}),
        (config.GatewaySettings, {"port": 65_536}),
        (config.GatewaySettings, {"slot": "a b"}),
        (config.Settings, {"durability": "maybe"}),
    ],
)
def test_values_out_of_range_are_refused(kind: type[msgspec.Struct], fields: dict[str, Any]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert(fields, kind)


def test_the_price_in_force_is_the_newest_that_began() -> None:
    dated = target(prices=(DatedPrice(from_ns=10, output=1), DatedPrice(from_ns=20, output=2)))
    assert dated.list_price(9) is None
    assert dated.list_price(10) == ListPrice(output=1)
    assert dated.list_price(19) == ListPrice(output=1)
    assert dated.list_price(20) == ListPrice(output=2)


def test_a_target_is_in_its_own_pool_unless_told_otherwise() -> None:
    assert target().pool_id == "t"
    assert target(pool="shared").pool_id == "shared"
    assert Routing().pool_of(target()) == Pool(id=PoolId("t"))
