"""What a provider says of when to come back is believed or not; it never breaks us."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.timing import MAX_AHEAD_NS, reset_at_ns, reset_in_message, retry_after_ms

NOW_NS = 1_800_000_000_000_000_000


@pytest.mark.parametrize(
    "text",
    ["9" * 400 + "s", "1e400s", "9" * 30 + "d6h", "33d", "9999-12-31T23:59:59Z", "0001-01-01T00:00:00Z", "x"],
)
def test_a_reset_beyond_all_reason_is_not_believed(text: str) -> None:
    assert reset_at_ns(text, NOW_NS) is None


@given(st.text(max_size=40) | st.from_regex(r"[0-9]{1,400}(ms|s|m|h|d)", fullmatch=True))
def test_any_hint_is_within_a_month_or_none(text: str) -> None:
    for found in (reset_at_ns(text, NOW_NS), reset_in_message(text, NOW_NS)):
        assert found is None or NOW_NS < found <= NOW_NS + MAX_AHEAD_NS
    for name in ("retry-after", "retry-after-ms"):
        wait_ms = retry_after_ms({name: text}, NOW_NS)
        assert wait_ms is None or 0 <= wait_ms * 1_000_000 <= MAX_AHEAD_NS
