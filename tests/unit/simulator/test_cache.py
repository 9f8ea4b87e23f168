"""The prefix cache bills every prompt token in exactly one class and forgets on time."""

from hypothesis import given
from hypothesis import strategies as st

from tidegate.simulator.ask import Mark
from tidegate.simulator.cache import Lookup, PrefixCache
from tidegate.simulator.config import CacheRule
from tidegate.simulator.tokens import count

BLOCK = 2
BLOCK_BYTES = 8


def cache(**overrides: float) -> PrefixCache:
    rule = {"ttl_s": 100.0, "ttl_1h_s": 1000.0, "min_block_tokens": 4, "block_tokens": BLOCK, **overrides}
    return PrefixCache(CacheRule(**rule), 1.0)  # type: ignore[arg-type]


def seen(store: PrefixCache, prompt: bytes, now_s: float = 0.0, model: str = "m") -> Lookup:
    lookup = store.automatic(model, prompt, now_s)
    store.store(lookup, now_s)
    return lookup


def marked(store: PrefixCache, prompt: bytes, *marks: Mark, now_s: float = 0.0) -> Lookup:
    lookup = store.marked("m", prompt, marks, now_s)
    store.store(lookup, now_s)
    return lookup


def test_a_repeated_prompt_reads_its_full_blocks() -> None:
    store, prompt = cache(), b"x" * (3 * BLOCK_BYTES + 5)
    assert seen(store, prompt).tokens.cache_read == 0
    again = seen(store, prompt).tokens
    assert (again.cache_read, again.input_uncached) == (6, 2)


def test_a_block_counts_only_with_the_same_prefix_and_model() -> None:
    store = cache()
    seen(store, b"a" * 32)
    assert seen(store, b"b" * 8 + b"a" * 24).tokens.cache_read == 0
    assert seen(store, b"a" * 24 + b"c" * 8).tokens.cache_read == 6
    assert seen(store, b"a" * 32, model="other").tokens.cache_read == 0


def test_a_prefix_below_the_smallest_cacheable_one_is_not_read() -> None:
    store = cache()
    seen(store, b"a" * 8 + b"b" * 24)
    assert seen(store, b"a" * 8 + b"c" * 24).tokens.cache_read == 0


def test_entries_are_forgotten_after_their_lifetime_and_use_refreshes_it() -> None:
    store, prompt = cache(), b"x" * 32
    seen(store, prompt, 0.0)
    assert seen(store, prompt, 99.0).tokens.cache_read == 8
    assert seen(store, prompt, 198.0).tokens.cache_read == 8
    assert seen(store, prompt, 298.0).tokens.cache_read == 0


def test_without_a_breakpoint_nothing_is_written_or_read() -> None:
    store = cache()
    assert marked(store, b"x" * 32).tokens.prompt == marked(store, b"x" * 32).tokens.input_uncached == 8


def test_a_breakpoint_writes_once_and_reads_then() -> None:
    store, mark = cache(), Mark(24, hour=False)
    first = marked(store, b"x" * 32, mark).tokens
    assert (first.input_uncached, first.cache_write_5m, first.cache_read) == (2, 6, 0)
    second = marked(store, b"x" * 32, mark).tokens
    assert (second.input_uncached, second.cache_write_5m, second.cache_read) == (2, 0, 6)


def test_the_hour_part_and_the_short_part_are_written_apart_and_live_apart() -> None:
    store, marks = cache(), (Mark(16, hour=True), Mark(32, hour=False))
    first = marked(store, b"x" * 32, *marks).tokens
    assert (first.cache_write_1h, first.cache_write_5m) == (4, 4)
    later = marked(store, b"x" * 32, *marks, now_s=500.0).tokens
    assert (later.cache_read, later.cache_write_1h, later.cache_write_5m) == (4, 0, 4)


def test_a_short_rewrite_does_not_cut_an_hour_short() -> None:
    store = cache()
    marked(store, b"x" * 32, Mark(32, hour=True))
    marked(store, b"x" * 32, Mark(32, hour=False), now_s=1.0)
    assert marked(store, b"x" * 32, Mark(32, hour=False), now_s=900.0).tokens.cache_read == 8


def test_a_full_cache_sheds_the_least_recently_used() -> None:
    store = cache(max_blocks=10)
    for letter in b"abc":
        seen(store, bytes([letter]) * 32)
    assert len(store) <= 10
    assert store.automatic("m", b"c" * 32, 0.0).tokens.cache_read == 8
    assert store.automatic("m", b"a" * 32, 0.0).tokens.cache_read == 0


prompts = st.lists(st.sampled_from([b"aaaaaaaa", b"bbbbbbbb", b"cc"]), max_size=8).map(b"".join)


@given(
    st.lists(
        st.tuples(
            prompts, st.lists(st.tuples(st.integers(0, 64), st.booleans()), max_size=3), st.integers(0, 99)
        ),
        max_size=12,
    )
)
def test_every_prompt_token_is_in_exactly_one_class(
    asks: list[tuple[bytes, list[tuple[int, bool]], int]],
) -> None:
    store, now_s = cache(), 0.0
    for prompt, raw, wait_s in asks:
        now_s += wait_s
        marks = [Mark(min(end, len(prompt)), hour) for end, hour in raw]
        for lookup in (marked(store, prompt, *marks, now_s=now_s), seen(store, prompt, now_s)):
            classes = lookup.tokens
            assert classes.prompt == count(len(prompt))
            parts = (
                classes.input_uncached,
                classes.cache_read,
                classes.cache_write_5m,
                classes.cache_write_1h,
            )
            assert min(parts) >= 0
