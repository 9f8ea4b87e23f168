"""The allow-lists and the two spellings of limits."""

from __future__ import annotations

import gzip
import zlib

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway import headers, rate_limits
from tidegate.gateway.outbound.faults import TargetInvalid
from tidegate.gateway.outbound.head import RequestHead

NOW = 1_800_000_000_000_000_000
MINUTE = 60_000_000_000
COUNTS = st.none() | st.integers(0, 2**31 - 1)


@given(
    st.lists(
        st.builds(
            rate_limits.Limit,
            st.sampled_from(["requests", "tokens", "input-tokens", "output-tokens"]),
            COUNTS,
            COUNTS,
            st.none() | st.integers(NOW // 10**9 + 1, NOW // 10**9 + 86_400).map(lambda s: s * 10**9),
        ).filter(lambda limit: (limit.limit, limit.remaining, limit.resets_at_ns) != (None, None, None)),
        unique_by=lambda limit: limit.scope,
    ),
    st.sampled_from(["openai", "anthropic"]),
)
def test_limits_told_in_a_dialect_are_read_back_the_same(
    limits: list[rate_limits.Limit], dialect: str
) -> None:
    told = list(rate_limits.told(limits, dialect, NOW))  # type: ignore[arg-type]
    assert rate_limits.limits_of(told, NOW) == sorted(limits, key=lambda limit: limit.scope)


def test_a_share_of_a_window_has_no_spelling_elsewhere() -> None:
    assert not list(rate_limits.told([rate_limits.Limit("unified-5h", 10_000, 4)], "openai", NOW))


def test_a_reset_is_never_told_too_early() -> None:
    soon = rate_limits.Limit("requests", resets_at_ns=NOW + 19_000_001)
    later = rate_limits.Limit("requests", resets_at_ns=NOW + 6 * MINUTE - 1)
    (_, short), (_, long) = (
        *rate_limits.told([soon], "openai", NOW),
        *rate_limits.told([later], "openai", NOW),
    )
    assert (short, long) == (b"20ms", b"6m0s")
    ((_, instant),) = rate_limits.told([later], "anthropic", NOW)
    assert instant == b"2027-01-15T08:06:00Z"


def test_own_limits_win_over_the_other_vendors_in_one_answer() -> None:
    both = [(b"x-ratelimit-limit-requests", b"5"), (b"anthropic-ratelimit-requests-limit", b"9")]
    assert headers.response_lines(both, "openai", "r", NOW) == (
        b"x-ratelimit-limit-requests: 5\r\nx-request-id: r\r\n"
    )
    assert headers.response_lines(both, "anthropic", "r", NOW) == (
        b"anthropic-ratelimit-requests-limit: 9\r\nrequest-id: r\r\n"
    )


def test_an_error_of_ours_leaves_retry_hints_to_us() -> None:
    said = [(b"retry-after", b"3"), (b"retry-after-ms", b"3000"), (b"openai-version", b"1")]
    assert headers.response_lines(said, "openai", "r", NOW, hints=False) == (
        b"openai-version: 1\r\nx-request-id: r\r\n"
    )
    assert b"retry-after-ms: 3000" in headers.response_lines(said, "openai", "r", NOW)


def test_what_cannot_be_decoded_is_left_as_it_is_and_no_bomb_opens() -> None:
    coded = [(b"content-encoding", b"gzip")]
    assert headers.decoded(coded, gzip.compress(b"words"), 100) == b"words"
    assert headers.decoded(coded, gzip.compress(b"0" * 100_000), 100) == b"0" * 100
    assert headers.decoded(coded, b"words", 100) == b"words"
    assert headers.decoded([(b"content-encoding", b"br")], b"words", 100) == b"words"
    assert headers.is_coded(coded)
    assert not headers.is_coded([(b"content-encoding", b"identity")])
    assert not headers.is_coded([])


@pytest.mark.parametrize(
    ("coding", "body", "read"),
    [
        (b"gzip", gzip.compress(b"words"), b"words"),
        (b"deflate", zlib.compress(b"words"), b"words"),
        (b"gzip", gzip.compress(b"words")[:-3], None),
        (b"gzip", gzip.compress(b"words") + b"more", None),
        (b"gzip", gzip.compress(b"0" * 101), None),
        (b"gzip", b"words", None),
        (b"br", b"words", None),
        (b"gzip, br", gzip.compress(b"words"), None),
    ],
)
def test_a_body_is_decoded_whole_or_not_at_all(coding: bytes, body: bytes, read: bytes | None) -> None:
    assert headers.decoded_whole([(b"content-encoding", coding)], body, 100) == read


def test_limits_in_the_other_vendors_names_are_told_in_the_clients_unless_its_own_are_there() -> None:
    theirs = [
        (b"anthropic-ratelimit-requests-limit", b"50"),
        (b"anthropic-ratelimit-requests-remaining", b"7"),
    ]
    told = headers.response_lines(theirs, "openai", "r", NOW)
    assert b"x-ratelimit-limit-requests: 50\r\n" in told
    assert b"x-ratelimit-remaining-requests: 7\r\n" in told
    assert b"anthropic" not in told
    own = [(b"x-ratelimit-limit-requests", b"60"), *theirs, (b"date", b"now"), (b"set-cookie", b"c")]
    told = headers.response_lines(own, "openai", "r", NOW)
    assert told == b"x-ratelimit-limit-requests: 60\r\nx-request-id: r\r\n"


def test_a_query_goes_behind_the_path_and_cannot_break_the_request_line() -> None:
    head = RequestHead("POST", b"h", b"/v1/messages", [(b"x", b"1")])
    assert (
        head.with_query(b"beta=true")
        .render(b"{}")
        .startswith(b"POST /v1/messages?beta=true HTTP/1.1\r\nhost: h")
    )
    assert head.render(b"{}").startswith(b"POST /v1/messages HTTP/1.1\r\n")
    for odd in (b"a b", b"a\r\nx: y", b"\xff"):
        with pytest.raises(TargetInvalid):
            head.with_query(odd)
