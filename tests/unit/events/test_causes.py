"""The total table of the nine causes (cause × failures already seen here)."""

from typing import get_args

import pytest

from tidegate.events.causes import (
    ABOUT_A_REQUEST,
    MAX_HINT_NS,
    Confidence,
    Consequence,
    consequence,
    says_of_target,
)
from tidegate.events.types import Cause

S = 1_000_000_000
NOW_NS = 1_800_000_000 * S

TABLE: dict[tuple[Cause | None, int], Consequence] = {
    (None, 0): Consequence("proceed"),
    ("quota_exhausted", 0): Consequence("failover", "pool_cooldown", NOW_NS + 3_600 * S),
    ("quota_exhausted", 1): Consequence("failover", "pool_cooldown", NOW_NS + 3_600 * S),
    ("rate_limited", 0): Consequence("retry_same", retry_at_ns=NOW_NS + 60 * S),
    ("rate_limited", 1): Consequence("failover", "target_cooldown", NOW_NS + 30 * S),
    ("unavailable", 0): Consequence("retry_same", retry_at_ns=NOW_NS + 30 * S),
    ("unavailable", 1): Consequence("failover"),
    ("unavailable", 3): Consequence("failover"),
    ("unavailable", 4): Consequence("failover", "target_cooldown", NOW_NS + 30 * S),
    ("transport", 0): Consequence("retry_same", retry_at_ns=NOW_NS + 30 * S),
    ("transport", 1): Consequence("failover"),
    ("transport", 3): Consequence("failover"),
    ("transport", 4): Consequence("failover", "target_cooldown", NOW_NS + 30 * S),
    ("auth", 0): Consequence("failover", "target_disable"),
    ("auth", 1): Consequence("failover", "target_disable"),
    ("invalid_request", 0): Consequence("failover"),
    ("invalid_request", 1): Consequence("failover"),
    ("denied", 0): Consequence("park"),
    ("denied", 1): Consequence("park"),
    ("execution", 0): Consequence("park"),
    ("execution", 1): Consequence("park"),
    ("unknown", 0): Consequence("park"),
    ("unknown", 1): Consequence("park"),
}


def test_the_table_has_a_row_for_every_cause() -> None:
    assert {cause for cause, _ in TABLE} == {None, *get_args(Cause)}


@pytest.mark.parametrize(("row", "expected"), TABLE.items(), ids=lambda value: str(value)[:40])
def test_each_cause_has_its_action_and_state_operation(
    row: tuple[Cause | None, int], expected: Consequence
) -> None:
    cause, repeats = row
    assert consequence(cause, now_ns=NOW_NS, repeats=repeats) == expected


def test_an_exhausted_pool_is_closed_until_the_reset_the_provider_named() -> None:
    outcome = consequence("quota_exhausted", now_ns=NOW_NS, reset_at_ns=NOW_NS + 9 * S, retry_after_ms=5)
    assert outcome == Consequence("failover", "pool_cooldown", NOW_NS + 9 * S)


def test_a_hint_of_thirty_two_days_is_still_believed() -> None:
    reset = consequence("quota_exhausted", now_ns=NOW_NS, reset_at_ns=NOW_NS + MAX_HINT_NS)
    throttle = consequence("rate_limited", now_ns=NOW_NS, retry_after_ms=32 * 86_400_000)
    assert reset.until_ns == throttle.retry_at_ns == NOW_NS + MAX_HINT_NS


@pytest.mark.parametrize("reset_at_ns", [NOW_NS, NOW_NS - 1, NOW_NS + MAX_HINT_NS + 1])
def test_a_reset_in_the_past_or_absurdly_far_is_not_believed(reset_at_ns: int) -> None:
    outcome = consequence("quota_exhausted", now_ns=NOW_NS, reset_at_ns=reset_at_ns)
    assert outcome.until_ns == NOW_NS + 3_600 * S


@pytest.mark.parametrize(
    ("retry_after_ms", "retry_s"), [(1_500, 1.5), (0, 60), (-1, 60), (33 * 86_400_000, 60), (None, 60)]
)
def test_a_throttle_is_waited_out_as_long_as_the_provider_says(
    retry_after_ms: int | None, retry_s: float
) -> None:
    outcome = consequence("rate_limited", now_ns=NOW_NS, retry_after_ms=retry_after_ms)
    assert outcome.retry_at_ns == NOW_NS + int(retry_s * S)


def test_a_repeated_throttle_closes_the_target_as_long_as_the_provider_says() -> None:
    outcome = consequence("rate_limited", now_ns=NOW_NS, repeats=1, retry_after_ms=7_000)
    assert outcome == Consequence("failover", "target_cooldown", NOW_NS + 7 * S)


def test_a_doubtful_exhaustion_never_closes_a_pool_for_all() -> None:
    outcome = consequence("quota_exhausted", now_ns=NOW_NS, confidence="low", reset_at_ns=NOW_NS + 9_000 * S)
    assert outcome == Consequence("failover", "target_cooldown", NOW_NS + 30 * S)


@pytest.mark.parametrize("confidence", ["medium", "low"])
def test_a_credential_is_given_up_for_good_only_on_high_confidence(confidence: Confidence) -> None:
    outcome = consequence("auth", now_ns=NOW_NS, confidence=confidence)
    assert outcome == Consequence("failover", "target_cooldown", NOW_NS + 30 * S)


@pytest.mark.parametrize(
    ("cause", "lasting_s"),
    [("transport", [30, 60, 120, 240, 300, 300]), ("rate_limited", [30, 60, 120, 120, 120, 120])],
)
def test_each_closing_in_a_row_is_twice_as_long_up_to_a_longest(cause: Cause, lasting_s: list[int]) -> None:
    closings = [consequence(cause, now_ns=NOW_NS, repeats=9, closings=n).until_ns for n in range(6)]
    assert closings == [NOW_NS + s * S for s in lasting_s]
    last = consequence(cause, now_ns=NOW_NS, repeats=9, closings=10**6).until_ns
    assert last == closings[-1]


@pytest.mark.parametrize("status", [None, 200, 400, 422, 429, 503])
@pytest.mark.parametrize("cause", get_args(Cause))
def test_what_a_client_may_have_brought_about_says_nothing_of_a_target(
    cause: Cause, status: int | None
) -> None:
    own = {"invalid_request", "denied", "execution"} | ({"unknown"} if status in ABOUT_A_REQUEST else set())
    assert says_of_target(cause, status) == (cause not in own)


@pytest.mark.parametrize(
    ("operation", "scope"),
    [
        ("none", "none"),
        ("target_cooldown", "target"),
        ("target_disable", "target"),
        ("pool_cooldown", "pool"),
    ],
)
def test_the_scope_says_whom_an_operation_closes(operation: str, scope: str) -> None:
    assert Consequence("failover", operation).scope == scope  # type: ignore[arg-type]
