"""Which provider made which turn of a session; counted only when it matters."""

from __future__ import annotations

import pytest

from tidegate.gateway.dialects.history import Turns
from tidegate.gateway.origins import Origins


def never() -> int:
    pytest.fail("nobody need count the turns of a session with one provider")


def test_a_session_of_one_provider_costs_no_counting_and_changes_nothing() -> None:
    origins = Origins()
    assert origins.foreign("s", "a", never) is None
    for _ in range(3):
        origins.note("s", "a", never)
        assert origins.foreign("s", "a", never) is None


def test_what_another_provider_made_is_told_by_turn() -> None:
    origins = Origins()
    origins.note("s", "a", never)
    assert origins.foreign("s", "b", lambda: 2) == Turns("b", ("a", "a"))
    origins.note("s", "b", lambda: 2)
    assert origins.foreign("s", "a", never) == Turns("a", ("a", "a", "b"))
    origins.note("s", "a", lambda: 3)
    assert origins.foreign("s", "b", never) == Turns("b", ("a", "a", "b", "a"))


def test_whether_turns_will_be_counted_is_known_before_and_without_a_count_nothing_is_claimed() -> None:
    origins = Origins()
    assert not origins.is_changing("s", "a")
    origins.note("s", "a", never)
    assert not origins.is_changing("s", "a")
    assert origins.is_changing("s", "b")
    origins.note("s", "b", lambda: None)
    assert origins.foreign("s", "a", never) is None
    assert origins.foreign("s", "b", never) is None


def test_a_client_may_go_back_or_add_turns_of_its_own() -> None:
    origins = Origins()
    origins.note("s", "a", never)
    origins.note("s", "b", lambda: 3)
    origins.note("s", "a", lambda: 1)
    assert origins.foreign("s", "b", never) == Turns("b", ("a", "a"))
    origins.note("s", "b", lambda: 4)
    assert origins.foreign("s", "a", never) == Turns("a", ("a", "a", None, None, "b"))


def test_the_sessions_that_were_served_last_are_remembered() -> None:
    origins = Origins(max_sessions=2)
    for session in ("one", "two", "one", "three"):
        origins.note(session, "a", never)
    assert origins.foreign("one", "b", lambda: 1) is not None
    assert origins.foreign("two", "b", never) is None
