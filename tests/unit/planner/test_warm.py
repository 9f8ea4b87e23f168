"""Contexts of a session on a target: which one a prompt goes on with, and which are kept."""

from __future__ import annotations

from collections.abc import Iterable

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.money import Tokens
from tidegate.planner.warm import CONTEXTS, Contexts, Left, grown_from, left_by, with_context


def left(asked: int, at_ns: int = 0) -> Left:
    return Left(asked, asked, asked, at_ns)


@pytest.mark.parametrize(
    ("known", "asked", "grown"),
    [
        ([50], 10, 50),
        ([50], 90, 50),
        ([10, 50], 49, 10),
        ([50, 10], 50, 50),
        ([10, 50, 30], 40, 30),
        ([50, 30, 70], 20, 30),
        ([50, 30, 70], 60, 50),
    ],
)
def test_a_prompt_grows_from_the_longest_that_is_no_longer_else_from_the_shortest(
    known: list[int], asked: int, grown: int
) -> None:
    assert grown_from(tuple(map(left, known)), asked).asked_tokens == grown


def kept_of(asked: Iterable[int]) -> Contexts:
    contexts: Contexts = ()
    for at_ns, tokens in enumerate(asked):
        contexts = with_context(contexts, left(tokens, at_ns))
    return contexts


def after(*asked: int) -> list[int]:
    return [each.asked_tokens for each in kept_of(asked)]


def test_a_growing_conversation_is_one_context() -> None:
    assert after(10, 20, 20, 30) == [30]


def test_a_short_context_beside_a_long_one_grows_by_itself() -> None:
    assert after(100, 5, 110, 6, 120, 7) == [7, 120]


def test_of_too_many_the_oldest_goes() -> None:
    assert after(400, 300, 200, 100) == [100, 200, 300]


@given(st.lists(st.integers(0, 1_000), min_size=1, max_size=40), st.integers(0, 1_000))
def test_few_are_kept_the_newest_first_and_every_length_finds_one(asked: list[int], wanted: int) -> None:
    contexts = kept_of(asked)
    assert 1 <= len(contexts) <= CONTEXTS
    assert contexts[0] == left(asked[-1], len(asked) - 1)
    assert [each.at_ns for each in contexts] == sorted((each.at_ns for each in contexts), reverse=True)
    assert grown_from(contexts, wanted) in contexts


@pytest.mark.parametrize(
    ("tokens", "cached"),
    [
        (Tokens(10, 70, 20), 90),
        (Tokens(10, None, 20), 20),
        (Tokens(10, 70, 0, 0), 70),
        (Tokens(10, 0), 10),
        (Tokens(10, 70), 80),
        (Tokens(10), None),
    ],
)
def test_what_may_be_kept_is_what_was_read_and_written_and_all_where_writes_are_not_told(
    tokens: Tokens, cached: int | None
) -> None:
    found = left_by(tokens, 7, 3)
    assert found is not None
    assert (found.asked_tokens, found.cached_tokens, found.at_ns) == (7, cached, 3)


def test_without_an_estimate_the_length_itself_stands_for_it_and_without_a_length_nothing_is_left() -> None:
    found = left_by(Tokens(10, 70), None, 0)
    assert found is not None
    assert found.asked_tokens == found.prompt_tokens == 80
    assert left_by(Tokens(output=4), 7, 0) is None
