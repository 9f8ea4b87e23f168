"""Exact money: integer nano-dollars, disjoint token classes, one rounding per attempt."""

import msgspec

MILLION = 1_000_000
NANOUSD_PER_USD = 1_000_000_000


class Tokens(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Tokens by disjoint class; `reasoning` is a part of `output`. Unknown is None, never 0.

    A cache class is None where the provider does not tell it apart: its tokens are in `input_uncached` then.
    """

    input_uncached: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None
    reasoning: int | None = None

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


class ListPrice(msgspec.Struct, frozen=True, omit_defaults=True, gc=False):
    """Nano-dollars per million tokens, by class. None = the provider lists no price for the class."""

    input_uncached: int | None = None
    cache_read: int | None = None
    cache_write_5m: int | None = None
    cache_write_1h: int | None = None
    output: int | None = None

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
        )


FREE = ListPrice(input_uncached=0, cache_read=0, cache_write_5m=0, cache_write_1h=0, output=0)


def round_half_up(numerator: int, denominator: int) -> int:
    """`numerator / denominator` to the nearest integer, ties up; numerator ≥ 0."""
    return (2 * numerator + denominator) // (2 * denominator)


def cost_nanousd(tokens: Tokens, price: ListPrice) -> int | None:
    """Σ tokens × price ÷ 10⁶, rounded once, half up; None when usage or price of a used class is unknown."""
    if tokens.input_uncached is None or tokens.output is None or not price.is_complete():
        return None
    total = tokens.input_uncached * (price.input_uncached or 0) + tokens.output * (price.output or 0)
    if tokens.cache_read or tokens.cache_write_5m or tokens.cache_write_1h:
        full = price.filled()
        total += (
            (tokens.cache_read or 0) * (full.cache_read or 0)
            + (tokens.cache_write_5m or 0) * (full.cache_write_5m or 0)
            + (tokens.cache_write_1h or 0) * (full.cache_write_1h or 0)
        )
    return round_half_up(total, MILLION)


def dollars(nanousd: int) -> str:
    """Exact decimal text, at least two decimals: 1234500000 -> '1.2345'."""
    sign = "-" if nanousd < 0 else ""
    whole, part = divmod(abs(nanousd), NANOUSD_PER_USD)
    decimals = f"{part:09d}".rstrip("0").ljust(2, "0")
    return f"{sign}{whole}.{decimals}"
