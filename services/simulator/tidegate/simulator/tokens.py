"""Token counting and the disjoint token classes of the simulator's own bill."""

import msgspec

BYTES_PER_TOKEN = 4


class TokenClasses(msgspec.Struct, frozen=True, kw_only=True):
    """Disjoint counts; `reasoning` is the part of `output` that was thought, not a class beside it.

    `web_searches` are no tokens, but billed beside them.
    """

    input_uncached: int = 0
    cache_read: int = 0
    cache_write_5m: int = 0
    cache_write_1h: int = 0
    output: int = 0
    reasoning: int = 0
    web_searches: int = 0

    @property
    def prompt(self) -> int:
        """All input tokens, however they are billed."""
        return self.input_uncached + self.cache_read + self.cache_write_5m + self.cache_write_1h

    @property
    def total(self) -> int:
        """Input and output together."""
        return self.prompt + self.output

    def with_answer(self, output: int, reasoning: int, web_searches: int = 0) -> "TokenClasses":
        """The same input with this output, `reasoning` being part of it."""
        return TokenClasses(
            input_uncached=self.input_uncached,
            cache_read=self.cache_read,
            cache_write_5m=self.cache_write_5m,
            cache_write_1h=self.cache_write_1h,
            output=output,
            reasoning=reasoning,
            web_searches=web_searches,
        )

    def cut_to(self, output: int) -> "TokenClasses":
        """The same input with the first `output` tokens of the answer; searches, then reasoning come first."""
        return self.with_answer(min(output, self.output), min(self.reasoning, output), self.web_searches)


NO_TOKENS = TokenClasses()


def count(size_bytes: int) -> int:
    """Tokens of a text of `size_bytes` UTF-8 bytes: a quarter, rounded up."""
    return -(-size_bytes // BYTES_PER_TOKEN)
