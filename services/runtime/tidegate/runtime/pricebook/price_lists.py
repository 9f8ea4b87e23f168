"""What is wrong with a model's dated prices, wherever they are written. Pure."""

from collections.abc import Iterator, Sequence

from tidegate.events.config import DatedPrice, VariantPrice
from tidegate.runtime.pricebook.entries import variant_key
from tidegate.runtime.toml_lines import Path
from tidegate.runtime.validation import Mistake, as_far_as_read


@as_far_as_read
def list_mistakes(path: Path, name: str, prices: Sequence[DatedPrice]) -> Iterator[Mistake]:
    """Of the prices at `path` that `name` has: dates that do not rise, variants that say nothing or the same."""
    yield from _rising(path, name, prices)
    for place, price in enumerate(prices):
        yield from _variants((*path, place, "variants"), price.variants)


@as_far_as_read
def _rising(path: Path, name: str, prices: Sequence[DatedPrice]) -> Iterator[Mistake]:
    starts = [price.from_ns for price in prices]
    if starts != sorted(set(starts)):
        yield Mistake(path, f"prices of `{name}` must have rising `from` dates")


@as_far_as_read
def _variants(path: Path, variants: Sequence[VariantPrice]) -> Iterator[Mistake]:
    seen: set[tuple[str | None, int | None]] = set()
    for place, variant in enumerate(variants):
        holds_for = variant_key(variant)
        if holds_for == (None, None):
            yield Mistake((*path, place), "a variant needs `service_tier` or `above_input_tokens`")
        elif holds_for in seen:
            yield Mistake((*path, place), "another variant holds for the same requests already")
        seen.add(holds_for)
