"""Deadlines of one call, on a clock of our own."""

from math import inf

from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.config import Deadlines
from tidegate.gateway.outbound.countdown import Countdown

DEADLINES = Deadlines(connect_s=1.0, header_s=10.0, first_token_s=20.0, idle_s=5.0)


def countdown(total_at: float = 1000.0, now: float = 100.0) -> Countdown:
    return Countdown(DEADLINES, now=now, total_at=total_at)


def test_the_header_deadline_runs_from_the_written_request() -> None:
    clock = countdown()
    assert clock.due() == 110.0
    assert clock.expired(109.9) is None
    assert clock.expired(110.0) == "header"


def test_idle_runs_only_between_body_pieces() -> None:
    clock = countdown()
    assert clock.expired(108.0) is None
    clock.head_arrived(108.0)
    assert clock.expired(112.9) is None
    assert clock.expired(113.0) == "idle"
    clock.progress_at = 112.0
    assert clock.due() == 117.0


def test_first_content_must_come_even_while_bytes_arrive() -> None:
    clock = countdown()
    clock.head_arrived(101.0)
    clock.progress_at = 119.5
    assert clock.expired(120.0) == "first_token"
    clock.first_token_at = inf
    assert clock.expired(120.0) is None


def test_the_total_deadline_goes_before_all_others() -> None:
    assert countdown(total_at=105.0).due() == 105.0
    assert countdown(total_at=105.0).expired(200.0) == "total"


def test_a_paused_clock_never_rings() -> None:
    clock = countdown(total_at=105.0)
    clock.pause(101.0)
    clock.pause(104.0)
    assert clock.due() == inf
    assert clock.expired(10_000.0) is None


def test_resuming_what_does_not_stand_still_changes_nothing() -> None:
    clock = countdown()
    clock.resume(500.0)
    assert clock.due() == 110.0


@given(
    pauses=st.lists(st.tuples(st.floats(0.0, 2.0), st.floats(0.0, 50.0)), max_size=8),
    total_at=st.sampled_from([103.0, 1000.0]),
    head_after_s=st.none() | st.floats(0.0, 5.0),
    is_content_seen=st.booleans(),
)
def test_pauses_put_every_deadline_off_by_their_length_and_no_more(
    pauses: list[tuple[float, float]], total_at: float, head_after_s: float | None, is_content_seen: bool
) -> None:
    clock = countdown(total_at)
    now = 100.0
    running = {total_at, 110.0, 120.0}
    if head_after_s is not None:
        now += head_after_s
        clock.head_arrived(now)
        running = {total_at, now + 5.0, 120.0}
    if is_content_seen:
        clock.first_token_at = inf
        running.discard(120.0)
    paused_s = 0.0
    for run_s, pause_s in pauses:
        now += run_s
        clock.pause(now)
        now += pause_s
        clock.resume(now)
        paused_s += pause_s
    assert abs(clock.due() - (min(running) + paused_s)) < 1e-6
