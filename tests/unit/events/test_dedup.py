"""Marks: every event counts once, however often and in whatever batches it is sent again."""

import msgspec
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.dedup import RETIRE_AFTER_NS, Marks

DAY_NS = 86_400 * 1_000_000_000


def test_an_event_is_accepted_once_and_an_older_one_never() -> None:
    marks = Marks()
    assert [marks.accept("gw@1", seq) for seq in (3, 3, 1, 4, 9, 9, 8, 10)] == [
        True,
        False,
        False,
        True,
        True,
        False,
        False,
        True,
    ]
    assert marks.seqs == {"gw@1": 10}


def test_the_first_event_of_a_source_is_accepted_whatever_its_seq() -> None:
    assert Marks().accept("gw@1", 0)
    assert Marks().accept("gw@1", 7)


def test_sources_do_not_see_each_other() -> None:
    marks = Marks()
    assert marks.accept("a", 5)
    assert marks.accept("b", 1)
    assert not marks.accept("a", 5)


def test_a_mark_retires_seven_days_after_its_source_closed_and_not_before() -> None:
    marks = Marks()
    marks.accept("old", 5)
    marks.accept("open", 5)
    marks.close("old", 100)
    assert marks.retire(100 + RETIRE_AFTER_NS - 1) == ()
    assert not marks.accept("old", 5)
    assert marks.retire(100 + RETIRE_AFTER_NS) == ("old",)
    assert marks == Marks(seqs={"open": 5})
    assert marks.retire(1 << 62) == ()


def test_a_repeated_closing_does_not_prolong_a_mark() -> None:
    marks = Marks()
    marks.accept("s", 1)
    marks.close("s", 0)
    marks.close("s", 6 * DAY_NS)
    assert marks.retire(7 * DAY_NS) == ("s",)


def test_closing_an_unknown_or_retired_source_leaves_no_trace() -> None:
    marks = Marks()
    marks.close("never", 0)
    assert marks == Marks()


def test_two_marks_share_nothing() -> None:
    one, other = Marks(), Marks()
    one.accept("s", 1)
    assert other.accept("s", 1)


sends = st.lists(st.tuples(st.sampled_from("abc"), st.integers(1, 30)), max_size=60)


@given(sends, st.integers(0, 60))
def test_a_restart_from_stored_marks_goes_on_as_if_there_was_none(
    sent: list[tuple[str, int]], restart: int
) -> None:
    whole, first = Marks(), Marks()
    expected = [whole.accept(*event) for event in sent]
    answers = [first.accept(*event) for event in sent[:restart]]
    second = msgspec.json.decode(msgspec.json.encode(first), type=Marks)
    answers += [second.accept(*event) for event in sent[restart:]]
    assert answers == expected
    assert second == whole


@given(st.integers(1, 40), st.lists(st.tuples(st.integers(0, 39), st.integers(1, 10)), max_size=10))
def test_rewinds_repeat_nothing_and_lose_nothing(count: int, rewinds: list[tuple[int, int]]) -> None:
    """The relay sends 1…count in order, and each rewind sends an earlier stretch again."""
    marks, counted, sent = Marks(), list[int](), 0
    for back, ahead in [*rewinds, (0, count)]:
        start = max(1, sent - back + 1)
        for seq in range(start, min(count, sent + ahead) + 1):
            if marks.accept("s", seq):
                counted.append(seq)
        sent = max(sent, min(count, sent + ahead))
    assert counted == list(range(1, count + 1))
