"""How long silence may last before it says something of the target."""

from __future__ import annotations

from math import inf

import pytest

from tidegate.events.config import Deadlines
from tidegate.gateway.outbound.faults import (
    ConnectFailed,
    FirstTokenTimeout,
    HeaderTimeout,
    IdleTimeout,
    UpstreamError,
)
from tidegate.gateway.patience import for_whole_answers, is_explained

DEADLINES = Deadlines(connect_s=1, header_s=60, first_token_s=120, idle_s=30)


def test_of_a_whole_answer_only_connecting_and_standing_still_are_bounded() -> None:
    assert for_whole_answers(DEADLINES) == Deadlines(connect_s=1, header_s=inf, first_token_s=inf, idle_s=30)


@pytest.mark.parametrize(
    ("error", "input_tokens", "thinking_tokens", "explained"),
    [
        (HeaderTimeout("x", "wait_headers"), 120_000, 0, True),
        (HeaderTimeout("x", "wait_headers"), 119_999, 0, False),
        (HeaderTimeout("x", "wait_headers"), 60_000, 600, True),
        (FirstTokenTimeout("x", "first_byte"), 0, 2_400, True),
        (FirstTokenTimeout("x", "first_byte"), 0, 2_399, False),
        (IdleTimeout("x", "first_byte"), 0, 600, True),
        (IdleTimeout("x", "mid_stream"), 900_000, 9_000, False),
        (ConnectFailed("x", "connect"), 900_000, 9_000, False),
    ],
)
def test_reading_and_thinking_explain_silence_before_content_and_nothing_else(
    error: UpstreamError, input_tokens: int, thinking_tokens: int, *, explained: bool
) -> None:
    assert is_explained(error, DEADLINES, input_tokens, thinking_tokens) is explained
