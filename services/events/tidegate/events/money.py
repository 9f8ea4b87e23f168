"""Exact money: integer nano-dollars, disjoint token classes, one rounding per attempt."""

import msgspec

from tidegate.events.bounds import Count, Nanousd

MILLION = 1_000_000
NANOUSD_PER_USD = 1_000_000_000


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens by disjoint class; `reasoning` is a part of `output`. Unknown is None, never 0.

    A cache class is None where the provider does not tell it apart: its tokens are in `input_uncached` then.
    Sound and pictures are parts of their class as reasoning is of output: sums over the classes stay whole.
    """

    input_uncached: Count | None = None
    cache_read: Count | None = None
    cache_write_5m: Count | None = None
    cache_write_1h: Count | None = None
    output: Count | None = None
    reasoning: Count | None = None
    input_audio: Count | None = None
    """Part of `input_uncached`."""
    input_image: Count | None = None
    """Part of `input_uncached`."""
    cache_read_audio: Count | None = None
    """Part of `cache_read`."""
    output_audio: Count | None = None
    """Part of `output`."""
    output_image: Count | None = None
    """Part of `output`."""
    web_searches: Count | None = None
    """Searches the provider ran by itself; no tokens, but billed beside them."""
    service_tier: str | None = None
    """How the provider says it served the request (`batch`, `flex`, `priority`, …); None = as usual."""

    def known_input(self) -> int:
        """Sum of the input classes that are known."""
        return (
            (self.input_uncached or 0)
            + (self.cache_read or 0)
            + (self.cache_write_5m or 0)
            + (self.cache_write_1h or 0)
        )

    def known_total(self) -> int:
        """Known input and output tokens."""
        return self.known_input() + (self.output or 0)


COUNTS = tuple(name for name in Tokens.__struct_fields__ if name != "service_tier")
"""The fields of `Tokens` that are numbers."""


class PartPrices(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Nano-dollars per million of what has a price of its own. None = it costs what its whole class costs;
    a search or a request, nothing."""

    reasoning: Nanousd | None = None
    input_audio: Nanousd | None = None
    input_image: Nanousd | None = None
    cache_read_audio: Nanousd | None = None
    output_audio: Nanousd | None = None
    output_image: Nanousd | None = None
    web_search: Nanousd | None = None
    """Per million searches."""
    request: Nanousd | None = None
    """Per million requests, whatever they use."""


class ListPrice(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Nano-dollars per million tokens, by class. None = the provider lists no price for the class."""

    input_uncached: Nanousd | None = None
    cache_read: Nanousd | None = None
    cache_write_5m: Nanousd | None = None
    cache_write_1h: Nanousd | None = None
    output: Nanousd | None = None
    parts: PartPrices | None = None
    variants: "tuple[PriceVariant, ...]" = ()
    """Other prices for long prompts and service tiers; of those that fit, the later wins class by class."""

    def is_complete(self) -> bool:
        """True when the two classes every request uses are priced."""
        return self.input_uncached is not None and self.output is not None

    def filled(self) -> "ListPrice":
        """Missing cache classes filled: reads cost the uncached price, writes the dearest class.

        Raises ValueError when input or output has no price: an unknown price is never zero.
        """
        if self.input_uncached is None or self.output is None:
            raise ValueError("price_unknown: input_uncached and output need a price")
        read = self.input_uncached if self.cache_read is None else self.cache_read
        known = [self.input_uncached, read, self.output, self.cache_write_5m, self.cache_write_1h]
        ceiling = max(price for price in known if price is not None)
        return ListPrice(
            input_uncached=self.input_uncached,
            cache_read=read,
            cache_write_5m=ceiling if self.cache_write_5m is None else self.cache_write_5m,
            cache_write_1h=ceiling if self.cache_write_1h is None else self.cache_write_1h,
            output=self.output,
            parts=self.parts,
            variants=self.variants,
        )

    def plain_for(self, tokens: Tokens) -> "ListPrice":
        """The one price of each class that this use is charged at: without variants, and self where none is.

        A variant for long prompts holds for all tokens of a request whose known input is above its mark.
        """
        if not self.variants:
            return self
        price, length = msgspec.structs.replace(self, variants=()), tokens.known_input()
        for variant in self.variants:
            if length > variant.above_input_tokens and variant.service_tier in {None, tokens.service_tier}:
                price = variant.price.over(price)
        return price

    def over(self, below: "ListPrice") -> "ListPrice":
        """This price, class by class and part by part, and `below` where it has none; variants are below's."""
        parts = below.parts if self.parts is None else self.parts
        if self.parts is not None and below.parts is not None:
            parts = PartPrices(*map(_first, _values(self.parts), _values(below.parts)))
        return ListPrice(
            input_uncached=_first(self.input_uncached, below.input_uncached),
            cache_read=_first(self.cache_read, below.cache_read),
            cache_write_5m=_first(self.cache_write_5m, below.cache_write_5m),
            cache_write_1h=_first(self.cache_write_1h, below.cache_write_1h),
            output=_first(self.output, below.output),
            parts=parts,
            variants=below.variants,
        )


class PriceVariant(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Prices for some requests only: long ones, those of a service tier, or the long ones of a tier."""

    price: ListPrice
    above_input_tokens: Count = -1
    """Known input tokens, cached ones included, above which it holds."""
    service_tier: str | None = None
    """None: for every tier."""


FREE = ListPrice(input_uncached=0, cache_read=0, cache_write_5m=0, cache_write_1h=0, output=0)


def _first(value: int | None, other: int | None) -> int | None:
    return other if value is None else value


def _values(parts: PartPrices) -> tuple[int | None, ...]:
    return msgspec.structs.astuple(parts)


def round_half_up(numerator: int, denominator: int) -> int:
    """`numerator / denominator` to the nearest integer, ties up; numerator ≥ 0."""
    return (2 * numerator + denominator) // (2 * denominator)


def cost_nanousd(tokens: Tokens, price: ListPrice) -> int | None:
    """Σ tokens × price ÷ 10⁶, rounded once, half up; None when usage or price of a used class is unknown."""
    if tokens.input_uncached is None or tokens.output is None:
        return None
    if price.variants:
        price = price.plain_for(tokens)
    if price.input_uncached is None or price.output is None:
        return None
    total = tokens.input_uncached * price.input_uncached + tokens.output * price.output
    if tokens.cache_read or tokens.cache_write_5m or tokens.cache_write_1h:
        full = price.filled()
        total += (
            (tokens.cache_read or 0) * (full.cache_read or 0)
            + (tokens.cache_write_5m or 0) * (full.cache_write_5m or 0)
            + (tokens.cache_write_1h or 0) * (full.cache_write_1h or 0)
        )
    if price.parts is not None:
        total += _parts_cost(tokens, price, price.parts)
    return round_half_up(total, MILLION)


def _parts_cost(tokens: Tokens, price: ListPrice, parts: PartPrices) -> int:
    """What parts cost more (or less) than the rest of their class, and what is billed beside the tokens."""
    total = (parts.request or 0) + (tokens.web_searches or 0) * (parts.web_search or 0)
    read = price.input_uncached if price.cache_read is None else price.cache_read
    for count, part, whole, most in (
        (tokens.reasoning, parts.reasoning, price.output, tokens.output),
        (tokens.input_audio, parts.input_audio, price.input_uncached, tokens.input_uncached),
        (tokens.input_image, parts.input_image, price.input_uncached, tokens.input_uncached),
        (tokens.cache_read_audio, parts.cache_read_audio, read, tokens.cache_read),
        (tokens.output_audio, parts.output_audio, price.output, tokens.output),
        (tokens.output_image, parts.output_image, price.output, tokens.output),
    ):
        if count and part is not None:
            total += min(count, most or 0) * (part - (whole or 0))
    return total


def dollars(nanousd: int) -> str:
    """Exact decimal text, at least two decimals: 1234500000 -> '1.2345'."""
    sign = "-" if nanousd < 0 else ""
    whole, part = divmod(abs(nanousd), NANOUSD_PER_USD)
    decimals = f"{part:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{decimals}"
