"""Prefix cache over chained block digests: a block is known only together with everything before it."""

import hashlib
from typing import NamedTuple

from tidegate.simulator.ask import Mark
from tidegate.simulator.config import CacheRule
from tidegate.simulator.tokens import BYTES_PER_TOKEN, TokenClasses, count


class Lookup(NamedTuple):
    """How a prompt meets the cache: its tokens by class, and what to keep once it was processed."""

    tokens: TokenClasses
    keep: tuple[tuple[bytes, float], ...]


class PrefixCache:
    """Block digest → when it is forgotten. Times in seconds; lifetimes are already divided by the speed."""

    def __init__(self, rule: CacheRule, speed: float) -> None:
        self._rule = rule
        self._block_bytes = rule.block_tokens * BYTES_PER_TOKEN
        self._ttl_s = rule.ttl_s / speed
        self._ttl_1h_s = rule.ttl_1h_s / speed
        self._forget_s: dict[bytes, float] = {}

    def __len__(self) -> int:
        return len(self._forget_s)

    def automatic(self, model: str, prompt: bytes, now_s: float) -> Lookup:
        """OpenAI's way: every full block is kept, known ones are read, writing is not billed."""
        total = count(len(prompt))
        blocks = self._blocks(model, prompt, len(prompt))
        read = self._known(blocks, now_s) * self._rule.block_tokens
        keep = blocks if total >= self._rule.min_block_tokens else []
        tokens = TokenClasses(input_uncached=total - read, cache_read=read)
        return Lookup(tokens, tuple((block, self._ttl_s) for block in keep))

    def marked(self, model: str, prompt: bytes, marks: tuple[Mark, ...], now_s: float) -> Lookup:
        """Anthropic's way: up to the last breakpoint, known blocks are read and the rest is a billed write.

        The part up to the last one-hour breakpoint is written for an hour, the rest for the short lifetime.
        """
        total = count(len(prompt))
        blocks = self._blocks(model, prompt, max((mark.end_byte for mark in marks), default=0))
        hour = max((mark.end_byte for mark in marks if mark.hour), default=0) // self._block_bytes
        if len(blocks) * self._rule.block_tokens < self._rule.min_block_tokens:
            return Lookup(TokenClasses(input_uncached=total), ())
        known = self._known(blocks, now_s)
        size = self._rule.block_tokens
        tokens = TokenClasses(
            input_uncached=total - len(blocks) * size,
            cache_read=known * size,
            cache_write_5m=(len(blocks) - max(known, hour)) * size,
            cache_write_1h=max(hour - known, 0) * size,
        )
        keep = (
            (block, self._ttl_1h_s if place < hour else self._ttl_s) for place, block in enumerate(blocks)
        )
        return Lookup(tokens, tuple(keep))

    def store(self, lookup: Lookup, now_s: float) -> None:
        """Keep or refresh the blocks of a processed prompt; a longer remaining life is never cut short."""
        for block, ttl_s in lookup.keep:
            self._forget_s[block] = max(now_s + ttl_s, self._forget_s.pop(block, 0.0))
        if len(self._forget_s) > self._rule.max_blocks:
            self._shed(now_s)

    def _blocks(self, model: str, prompt: bytes, end_byte: int) -> list[bytes]:
        size = self._block_bytes
        chain = hashlib.blake2b(model.encode(), digest_size=16)
        digests: list[bytes] = []
        for start in range(0, end_byte - size + 1, size):
            chain.update(prompt[start : start + size])
            digests.append(chain.digest())
        return digests

    def _known(self, blocks: list[bytes], now_s: float) -> int:
        """How many leading blocks are alive; a prefix below the smallest cacheable one counts as none."""
        alive = 0
        for block in blocks:
            if self._forget_s.get(block, 0.0) <= now_s:
                break
            alive += 1
        return alive if alive * self._rule.block_tokens >= self._rule.min_block_tokens else 0

    def _shed(self, now_s: float) -> None:
        """Drop the dead, then the least recently used, down to nine tenths so that it is done rarely."""
        alive = [(block, until_s) for block, until_s in self._forget_s.items() if until_s > now_s]
        surplus = len(alive) - self._rule.max_blocks * 9 // 10
        self._forget_s = dict(alive[max(surplus, 0) :])
