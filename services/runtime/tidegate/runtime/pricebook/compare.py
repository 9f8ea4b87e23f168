"""Two tables of prices side by side: by model, length, service tier and class. Pure."""

from collections.abc import Callable, Iterable
from typing import NamedTuple

from tidegate.events.config import DatedPrice
from tidegate.runtime.pricebook.entries import NUMBERS, ModelPrices, in_force, numbers_of, variant_key


class Difference(NamedTuple):
    """One number of one model. None: that table does not have it."""

    model: str
    name: str
    """Class or part."""
    service_tier: str | None
    above_input_tokens: int | None
    left_nanousd: int | None
    right_nanousd: int | None


class Comparison(NamedTuple):
    """What two tables say of the models that both have."""

    models: int
    """Models that both have with a price in force."""
    equal: int
    """Numbers that both have and that are equal."""
    differences: list[Difference]
    """Numbers that both have and that are not."""
    one_sided: list[Difference]
    """Numbers that only one has."""
    only_right: list[str]
    """Models of the right table that the left one does not know."""


def compare(
    left: Callable[[str], ModelPrices | None], right: Iterable[ModelPrices], at_ns: int
) -> Comparison:
    """`left` answers a model of the right table by name. Prices are those in force at `at_ns`."""
    models, equal = 0, 0
    differences: list[Difference] = []
    one_sided: list[Difference] = []
    only_right: list[str] = []
    for theirs in right:
        ours = left(theirs.id)
        mine = None if ours is None else in_force(ours.prices, at_ns)
        other = in_force(theirs.prices, at_ns)
        if mine is None or other is None:
            only_right.append(theirs.id)
            continue
        models += 1
        for found in _differences(theirs.id, mine, other):
            if found.left_nanousd == found.right_nanousd:
                equal += 1
            elif None in {found.left_nanousd, found.right_nanousd}:
                one_sided.append(found)
            else:
                differences.append(found)
    return Comparison(models, equal, differences, one_sided, only_right)


def _differences(model: str, left: DatedPrice, right: DatedPrice) -> Iterable[Difference]:
    """Every number that one of the two has, the base first."""
    ours, theirs = _places(left), _places(right)
    for place in dict.fromkeys([*ours, *theirs]):
        mine, other = ours.get(place, {}), theirs.get(place, {})
        for name in NUMBERS:
            if name in mine or name in other:
                yield Difference(model, name, *place, mine.get(name), other.get(name))


def _places(price: DatedPrice) -> dict[tuple[str | None, int | None], dict[str, int]]:
    places: dict[tuple[str | None, int | None], dict[str, int]] = {(None, None): numbers_of(price)}
    for variant in price.variants:
        places[variant_key(variant)] = numbers_of(variant)
    return places
