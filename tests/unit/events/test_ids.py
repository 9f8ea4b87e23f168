"""Ids sort by creation, are unique, and derived ones are the same event however often they are made."""

import random
import uuid

from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.clock import ManualClock
from tidegate.events.ids import IdSource, format_uuid, settlement_id, source_closed_id
from tidegate.events.types import AttemptId

START_NS = 1_800_000_000_000_000_000


def source(clock: ManualClock, seed: int = 1) -> IdSource:
    return IdSource(clock, random.Random(seed).getrandbits)


@given(st.lists(st.sampled_from([0, 1, 999_999, 1_000_000, 10**12, -(10**6), -(10**13)]), max_size=200))
def test_ids_sort_by_creation_also_when_the_wall_clock_goes_back(jumps_ns: list[int]) -> None:
    clock = ManualClock(START_NS)
    ids = source(clock)
    made = [ids.next()]
    for jump_ns in jumps_ns:
        clock.jump_wall_ns(jump_ns)
        made.append(ids.next())
    assert made == sorted(set(made))


def test_more_ids_than_a_millisecond_can_count_still_sort() -> None:
    ids = source(ManualClock(START_NS))
    made = [ids.next() for _ in range(10_000)]
    assert made == sorted(set(made))


def test_an_id_is_a_version_7_uuid_that_tells_its_millisecond() -> None:
    made = uuid.UUID(source(ManualClock(START_NS + 999_999)).next())
    assert made.version == 7
    assert made.variant == uuid.RFC_4122
    assert made.int >> 80 == START_NS // 1_000_000


def test_two_sources_at_the_same_instant_make_different_ids() -> None:
    clock = ManualClock(START_NS)
    one, other = source(clock, 1), source(clock, 2)
    assert len({maker.next() for maker in (one, other) for _ in range(1_000)}) == 2_000


def test_a_source_is_named_by_its_slot_and_new_at_every_start() -> None:
    ids = source(ManualClock(START_NS))
    first, second = ids.source("gw0"), ids.source("gw0")
    assert first != second
    assert {name.partition("@")[0] for name in (first, second)} == {"gw0"}


@given(st.integers(0, (1 << 128) - 1))
def test_a_uuid_is_written_in_its_canonical_form(value: int) -> None:
    assert format_uuid(value) == str(uuid.UUID(int=value))


@given(st.text(max_size=40), st.text(max_size=40))
def test_an_attempt_has_one_settlement_id(one: str, other: str) -> None:
    assert settlement_id(AttemptId(one)) == settlement_id(AttemptId(one))
    assert (settlement_id(AttemptId(one)) == settlement_id(AttemptId(other))) == (one == other)


def test_a_source_closes_once_per_partition() -> None:
    made = {source_closed_id(name, topic, p) for name in ("a", "b") for topic in (0, 1) for p in (0, 1)}
    assert len(made) == 8
    assert source_closed_id("a", 0, 1) in made
