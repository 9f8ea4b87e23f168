"""The price book: models by name, with the prices of each; built in, or of a file that goes before it."""

import difflib
import gzip
import json
import re
from collections.abc import Iterator, Mapping, Sequence
from decimal import Decimal
from functools import cache
from importlib.resources import files
from typing import Any

from tidegate.events.errors import Refused
from tidegate.runtime.pricebook import genai
from tidegate.runtime.pricebook.entries import ModelPrices, Unreadable

_BUILT_IN = "genai_prices.json.gz"
_NEAR = 5


class UnknownModel(Refused):
    """The book has no such model, or no price of it per token; the message names what is near."""

    code = "model_unknown"


class PriceBook:
    """Models of the data of `genai-prices`, and before them those of a file. Converted when they are asked for."""

    def __init__(
        self, providers: Sequence[Mapping[str, Any]], origin: str, before: Sequence[ModelPrices] = ()
    ) -> None:
        """`providers` as that package's JSON has them; `origin` is told with every price."""
        self.origin = origin
        self._before = {each.id: each for each in before}
        self._models: dict[str, dict[str, Mapping[str, Any]]] = {
            provider["id"]: {model["id"]: model for model in provider["models"]} for provider in providers
        }

    def find(self, name: str) -> ModelPrices:
        """Prices of `provider/model`; the model also by a name the provider gives it. Raises UnknownModel."""
        found = self.get(name)
        if found is not None:
            return found
        if self._listed(name) is not None:
            raise UnknownModel(f"`{name}` has no price per token in the price book")
        raise UnknownModel(f"`{name}` is not in the price book{_hint(self.near(name))}")

    def get(self, name: str) -> ModelPrices | None:
        """As `find`, None for what it raises."""
        if name in self._before:
            return self._before[name]
        listed = self._listed(name)
        return None if listed is None else self._converted(name.partition("/")[0], listed)

    def near(self, name: str) -> list[str]:
        """Names of the book that are like this one, best first."""
        ids = [*self._before, *(f"{p}/{m}" for p, models in self._models.items() for m in models)]
        provider, _, model = name.partition("/")
        elsewhere = [i for i in ids if i.partition("/")[2] == (model or provider)]
        alike = difflib.get_close_matches(name, ids, n=_NEAR, cutoff=0.6)
        return list(dict.fromkeys([*elsewhere[:_NEAR], *alike]))[:_NEAR]

    def entries(self) -> Iterator[ModelPrices]:
        """Every model that has a price per token, those of the file first."""
        yield from self._before.values()
        for provider, models in self._models.items():
            for model in models.values():
                if f"{provider}/{model['id']}" not in self._before:
                    found = self._converted(provider, model)
                    if found is not None:
                        yield found

    def _listed(self, name: str) -> Mapping[str, Any] | None:
        provider, _, model = name.partition("/")
        models = self._models.get(provider, {})
        if model in models or not model:
            return models.get(model)
        wanted = model.lower()
        return next((each for each in models.values() if matches(each["match"], wanted)), None)

    def _converted(self, provider: str, model: Mapping[str, Any]) -> ModelPrices | None:
        if "prices" not in model:
            return None
        try:
            return genai.model_prices(provider, model, f"{self.origin} {provider}/{model['id']}"[:256])
        except (KeyError, TypeError, AttributeError, ValueError) as error:
            raise Unreadable(
                f"{self.origin}: model {provider}/{model['id']} cannot be read: {error}"
            ) from error


def _hint(near: Sequence[str]) -> str:
    return f"; near it: {', '.join(near)}" if near else "; see `tidegate prices list`"


def matches(rule: Mapping[str, Any], name: str) -> bool:
    """Whether a model is known under a name (lower case), by the rule of its entry. Raises Unreadable."""
    ((kind, value),) = rule.items()
    if kind in {"or", "and"}:
        return (any if kind == "or" else all)(matches(each, name) for each in value)
    if kind == "regex":
        return re.search(value, name) is not None
    wanted = value.lower()
    if kind == "equals":
        return bool(name == wanted)
    if kind == "starts_with":
        return name.startswith(wanted)
    if kind == "ends_with":
        return name.endswith(wanted)
    if kind == "contains":
        return wanted in name
    raise Unreadable(f"a rule of names says `{kind}`")


def read_genai(text: bytes, origin: str) -> PriceBook:
    """A book of the package's JSON (`prices/data.json` of its repository). Raises Unreadable."""
    try:
        data = json.loads(text, parse_float=Decimal)
    except (ValueError, ArithmeticError, RecursionError) as error:
        raise Unreadable(f"{origin}: not valid JSON: {error}") from error
    try:
        return PriceBook(data, origin)
    except (KeyError, TypeError) as error:
        raise Unreadable(f"{origin}: not the data of genai-prices: {error}") from error


@cache
def built_in_data() -> Mapping[str, Any]:
    """What was taken over from the pinned package: its version, its day, its providers."""
    packed = files("tidegate.runtime.pricebook").joinpath(_BUILT_IN).read_bytes()
    data: Mapping[str, Any] = json.loads(gzip.decompress(packed))
    return data


def built_in(before: Sequence[ModelPrices] = ()) -> PriceBook:
    """The book that comes with Tidegate; models of `before` take the place of its own."""
    data = built_in_data()
    return PriceBook(data["providers"], f"{data['package']} {data['version']} of {data['released']}", before)
