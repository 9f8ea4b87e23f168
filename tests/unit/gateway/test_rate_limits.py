"""Rate-limit headers of both vendors say the same things in one form; nonsense says nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.rate_limits import Limit, limits_of
from tidegate.gateway.usage import MAX_COUNT

NOW_NS = 1_800_000_000_000_000_000
S = 1_000_000_000

CASES = {
    "openai": (
        [
            (b"x-ratelimit-limit-requests", b"60"),
            (b"x-ratelimit-remaining-requests", b"59"),
            (b"x-ratelimit-reset-requests", b"1s"),
            (b"x-ratelimit-limit-tokens", b"150000"),
            (b"x-ratelimit-remaining-tokens", b"149984"),
            (b"x-ratelimit-reset-tokens", b"6m0s"),
            (b"content-type", b"application/json"),
        ],
        [
            Limit("requests", 60, 59, NOW_NS + S),
            Limit("tokens", 150_000, 149_984, NOW_NS + 360 * S),
        ],
    ),
    "anthropic": (
        [
            (b"anthropic-ratelimit-input-tokens-limit", b"40000"),
            (b"anthropic-ratelimit-input-tokens-remaining", b"0"),
            (b"anthropic-ratelimit-input-tokens-reset", b"2027-01-15T08:01:00Z"),
        ],
        [Limit("input-tokens", 40_000, 0, NOW_NS + 60 * S)],
    ),
    "a plan's windows": (
        [
            (b"anthropic-ratelimit-unified-5h-status", b"allowed"),
            (b"anthropic-ratelimit-unified-5h-utilization", b"0.2500"),
            (b"anthropic-ratelimit-unified-5h-reset", b"1800000600"),
            (b"anthropic-ratelimit-unified-7d-utilization", b"1.2"),
        ],
        [Limit("unified-5h", 10_000, 7_500, NOW_NS + 600 * S), Limit("unified-7d", 10_000, 0, None)],
    ),
    "a coding plan's windows": (
        [
            (b"x-codex-primary-used-percent", b"12.5"),
            (b"x-codex-primary-window-minutes", b"300"),
            (b"x-codex-primary-reset-after-seconds", b"600"),
            (b"x-codex-secondary-used-percent", b"100"),
            (b"x-codex-secondary-reset-at", b"1800000700"),
            (b"x-codex-secondary-reset-after-seconds", b"0"),
            (b"x-codex-credits-balance", b"7"),
        ],
        [
            Limit("codex-primary", 10_000, 8_750, NOW_NS + 600 * S),
            Limit("codex-secondary", 10_000, 0, NOW_NS + 700 * S),
        ],
    ),
    "nonsense": (
        [
            (b"x-ratelimit-limit-requests", b"many"),
            (b"x-ratelimit-remaining-requests", b"-1"),
            (b"x-ratelimit-reset-requests", b"yesterday"),
            (b"x-ratelimit-", b"5"),
            (b"anthropic-ratelimit-tokens-limit", b"9" * 40),
            (b"anthropic-ratelimit-unified-5h-utilization", b"nan"),
            (b"x-codex-primary-used-percent", b"much"),
            (b"x-codex-primary-reset-after-seconds", b"0"),
            (b"x-codex-secondary-reset-after-seconds", b"9999999999"),
        ],
        [],
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_limits_are_read_as_their_provider_means_them(name: str) -> None:
    headers, expected = CASES[name]
    assert limits_of(headers, NOW_NS) == expected


NAMES = st.sampled_from([name for headers, _ in CASES.values() for name, _ in headers]) | st.binary(
    max_size=60
)


@given(st.lists(st.tuples(NAMES, st.binary(max_size=45)), max_size=12))
def test_whatever_a_provider_sends_the_numbers_stay_within_bounds(headers: list[tuple[bytes, bytes]]) -> None:
    for limit in limits_of(headers, NOW_NS):
        for count in (limit.limit, limit.remaining):
            assert count is None or 0 <= count <= MAX_COUNT
        assert limit.resets_at_ns is None or limit.resets_at_ns > NOW_NS
        assert len(limit.scope) <= 64
