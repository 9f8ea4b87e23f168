"""Tables of series grow and survive JSON."""

import json

import numpy as np
import pytest

from tidegate.estimator.columns import Columns, IntColumns, Table
from tidegate.estimator.consumption import Consumption
from tidegate.estimator.health import Health
from tidegate.estimator.price_filter import PriceFilter
from tidegate.estimator.rate_filter import RateFilter
from tidegate.estimator.shadow_price import ValueSketch
from tidegate.estimator.windows import WindowLedger

MODELS: list[type[Columns] | type[IntColumns]] = [
    Consumption,
    Health,
    PriceFilter,
    RateFilter,
    ValueSketch,
    WindowLedger,
]


@pytest.mark.parametrize("model", MODELS)
def test_every_field_has_a_name_a_prior_and_a_finite_value(model: type[Columns] | type[IntColumns]) -> None:
    assert len(model.FIELDS) == len(set(model.FIELDS)) == len(model.PRIOR)
    assert np.all(np.isfinite(model.PRIOR))
    assert model(3).row(2) == list(model.PRIOR)


@pytest.mark.parametrize("model", MODELS)
def test_a_row_restores_bit_by_bit_through_json(model: type[Columns] | type[IntColumns]) -> None:
    rng = np.random.default_rng(1)
    table: Table = model(2)
    numbers = rng.lognormal(0, 30, len(model.FIELDS)).clip(max=1e17)
    table.load(1, numbers.astype(table.data.dtype).tolist())
    other: Table = model()
    other.load(40, json.loads(json.dumps(table.row(1))))
    assert np.array_equal(other.data[:, 40], table.data[:, 1])
    assert other.size == 41
    assert other.row(7) == list(model.PRIOR)


def test_growing_doubles_the_room_and_keeps_what_was_there() -> None:
    table = Health(3)
    table.load(2, [1.0, 2.0, 3.0, 4.0, 5.0, 6.0])
    table.ensure(4)
    assert table.data.shape[1] == 6
    assert table.row(2) == [1.0, 2.0, 3.0, 4.0, 5.0, 6.0]


def test_a_row_of_another_shape_is_refused_by_name() -> None:
    with pytest.raises(ValueError, match="Health state has 2 numbers, needs 6"):
        Health(1).load(0, [1.0, 2.0])
    with pytest.raises(ValueError, match="WindowLedger state has 1 numbers, needs 7"):
        WindowLedger(1).load(0, [1])
