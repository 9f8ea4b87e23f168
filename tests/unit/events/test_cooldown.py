"""Failures in a row of one target: what closes it and for how long, what coalesces, what opens it."""

from __future__ import annotations

from typing import Any

import pytest

from tidegate.events.clock import ManualClock
from tidegate.events.cooldown import FOR_GOOD, FORGOTTEN_NS, STRIKE_GAP_NS, Cooldown, is_proof, strike
from tidegate.events.id_time import made_ns
from tidegate.events.ids import IdSource
from tidegate.events.signals import AttemptFailed
from tidegate.events.types import AttemptId, PoolId, TargetId

S = 10**9
NOW_NS = 1_800_000_000 * S


def attempt_of(begun_ns: int) -> AttemptId:
    return AttemptId(IdSource(ManualClock(begun_ns), lambda bits: 0).next())


def failure(cause: Any = "unavailable", begun_ns: int | None = None, **fields: Any) -> AttemptFailed:
    return AttemptFailed(
        attempt=AttemptId("a") if begun_ns is None else attempt_of(begun_ns),
        target=TargetId("t"),
        pool=PoolId("p"),
        cause=cause,
        phase="body",
        rule="r",
        **fields,
    )


def struck(*at_s: float, cause: Any = "unavailable") -> Cooldown:
    cooldown = Cooldown()
    for at in at_s:
        strike(cooldown, failure(cause), NOW_NS + int(at * S))
    return cooldown


def closed_for_s(cooldown: Cooldown) -> float | None:
    return None if cooldown.until_ns is None else (cooldown.until_ns - NOW_NS) / S


def test_five_faults_in_a_row_close_a_target_for_half_a_minute() -> None:
    assert closed_for_s(struck(0, 1, 2, 3)) is None
    assert closed_for_s(struck(0, 1, 2, 3, 4)) == 34


@pytest.mark.parametrize("cause", ["unavailable", "transport", "rate_limited"])
@pytest.mark.parametrize("concurrent", [2, 20, 2_000])
def test_what_a_moment_broke_is_one_strike_however_many_requests_it_met(cause: str, concurrent: int) -> None:
    blip = struck(*(n / concurrent * 0.999 for n in range(concurrent)), cause=cause)
    assert (blip.strikes, blip.until_ns) == (1, None)


def test_failures_that_outlast_a_moment_count_once_each_second() -> None:
    assert closed_for_s(struck(*(n / 50 for n in range(50 * 4)))) is None
    assert closed_for_s(struck(*(n / 50 for n in range(50 * 5)))) == 34


def test_throttles_close_at_the_second_and_as_long_as_the_provider_says() -> None:
    cooldown = struck(0, cause="rate_limited")
    strike(cooldown, failure("rate_limited", retry_after_ms=7_000), NOW_NS + STRIKE_GAP_NS)
    assert closed_for_s(cooldown) == 8


def test_nothing_counts_while_it_is_closed() -> None:
    cooldown = struck(*range(34))
    assert (cooldown.strikes, cooldown.closings, closed_for_s(cooldown)) == (5, 1, 34)
    strike(cooldown, failure("auth", confidence="low"), NOW_NS + 33 * S)
    assert closed_for_s(cooldown) == 34


def test_each_failed_trial_closes_for_twice_as_long() -> None:
    cooldown = struck(0, 1, 2, 3, 4, 34)
    assert closed_for_s(cooldown) == 34 + 60
    strike(cooldown, failure(), NOW_NS + 94 * S)
    assert closed_for_s(cooldown) == 94 + 120


def test_what_began_before_a_closing_neither_prolongs_nor_repeats_it() -> None:
    cooldown = struck(0, 1, 2, 3, 4)
    strike(cooldown, failure(begun_ns=NOW_NS + 3 * S), NOW_NS + 40 * S)
    assert (closed_for_s(cooldown), cooldown.closings) == (34, 1)
    strike(cooldown, failure(begun_ns=NOW_NS + 39 * S), NOW_NS + 41 * S)
    assert (closed_for_s(cooldown), cooldown.closings) == (101, 2)


def test_a_credential_that_fails_is_given_up_though_the_target_is_closed() -> None:
    cooldown = struck(0, 1, 2, 3, 4)
    strike(cooldown, failure("auth"), NOW_NS + 5 * S)
    assert (cooldown.until_ns, cooldown.cause) == (FOR_GOOD, "auth")
    assert cooldown.is_closed(NOW_NS + 10**18)


def test_strikes_of_long_ago_are_forgotten() -> None:
    cooldown = struck(0, 1, 2, 3)
    strike(cooldown, failure(), NOW_NS + 3 * S + FORGOTTEN_NS + 1)
    assert (cooldown.strikes, cooldown.until_ns) == (1, None)


def test_closings_of_long_ago_are_forgotten_but_not_their_end() -> None:
    cooldown = struck(0, 1, 2, 3, 4)
    strike(cooldown, failure(), NOW_NS + 4 * S + FORGOTTEN_NS + 1)
    assert (cooldown.strikes, cooldown.closings, closed_for_s(cooldown)) == (1, 0, 34)


def test_an_exhausted_pool_is_told_and_its_target_stays_open() -> None:
    cooldown = Cooldown()
    found = strike(cooldown, failure("quota_exhausted", reset_at_ns=NOW_NS + 9 * S), NOW_NS)
    assert (found.scope, found.until_ns, cooldown.until_ns) == ("pool", NOW_NS + 9 * S, None)


def test_times_a_failure_names_are_read_in_the_clock_it_is_counted_by() -> None:
    ahead_ns = NOW_NS - 50 * S
    cooldown = Cooldown()
    exhausted = failure("quota_exhausted", reset_at_ns=NOW_NS + 9 * S)
    assert strike(cooldown, exhausted, 50 * S, ahead_ns).until_ns == 59 * S
    for n in range(5):
        strike(cooldown, failure(), (60 + n) * S, ahead_ns)
    strike(cooldown, failure(begun_ns=NOW_NS + 12 * S), 95 * S, ahead_ns)
    assert cooldown.closings == 1, "it began a second before the closing"
    strike(cooldown, failure(begun_ns=NOW_NS + 13 * S), 95 * S, ahead_ns)
    assert cooldown.closings == 2


@pytest.mark.parametrize(
    ("closed", "begun_s", "opens"),
    [
        ((), -60, True),
        ((0, 1), -60, True),
        ((0, 1, 2, 3, 4), 3, False),
        ((0, 1, 2, 3, 4), 4, True),
        ((0, 1, 2, 3, 4), None, True),
    ],
)
def test_a_success_opens_what_was_closed_before_it_began(
    closed: tuple[float, ...], begun_s: int | None, opens: bool
) -> None:
    begun_ns = None if begun_s is None else NOW_NS + begun_s * S
    assert is_proof(struck(*closed), begun_ns, NOW_NS + 5 * S) is opens


@pytest.mark.parametrize(("begun_s", "opens"), [(-40, False), (None, False), (1, True)])
def test_what_only_an_operator_may_undo_is_undone_by_nothing_that_began_before(
    begun_s: int | None, opens: bool
) -> None:
    cooldown = struck(0, cause="auth")
    begun_ns = None if begun_s is None else NOW_NS + begun_s * S
    assert is_proof(cooldown, begun_ns, NOW_NS + 5 * S) is opens


@pytest.mark.parametrize("back_s", [3_600, 86_400 * 30])
def test_a_closing_by_a_clock_that_was_set_back_since_is_void(back_s: int) -> None:
    now_ns = NOW_NS - back_s * S
    cooldown = struck(0, 1, 2, 3, 4)
    assert cooldown.is_closed(NOW_NS + 5 * S)
    assert not cooldown.is_closed(now_ns)
    assert is_proof(cooldown, now_ns - S, now_ns)
    for n in range(5):
        strike(cooldown, failure(begun_ns=now_ns - S), now_ns + n * S)
    assert cooldown.until_ns == now_ns + 34 * S, "the target still fails: closed again, by the clock of now"
    assert cooldown.is_closed(now_ns + 33 * S)


def test_what_is_closed_for_good_stays_so_whatever_the_clock_says() -> None:
    cooldown = struck(0, cause="auth")
    assert cooldown.is_closed(NOW_NS - 3_600 * S)
    assert not is_proof(cooldown, NOW_NS - 3_601 * S, NOW_NS - 3_600 * S)


def test_an_id_tells_when_it_was_made() -> None:
    assert made_ns(attempt_of(NOW_NS + 1_234_567)) == NOW_NS + 1_000_000


@pytest.mark.parametrize(
    "text",
    ["", "a", "x" * 36, "00000000-0000-4000-8000-000000000000", "zzzzzzzz-0000-7000-8000-000000000000"],
)
def test_a_text_that_is_no_such_id_tells_nothing(text: str) -> None:
    assert made_ns(text) is None
