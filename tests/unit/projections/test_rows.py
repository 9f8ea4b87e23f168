"""Event → rows."""

import pytest

from support.history import PRICE, History
from tidegate.events.codec import decode_data, decode_envelope, encode
from tidegate.events.money import ListPrice, Tokens
from tidegate.events.registry import CURRENT, TOPIC_OF
from tidegate.events.signals import UsageSettled
from tidegate.events.topics import SIGNALS
from tidegate.events.types import AttemptId, PoolId, TargetId
from tidegate.projections.rows import NOT_PROJECTED, PROJECTED, Place, rows_of
from tidegate.projections.tables import BY_NAME, TABLES, TOPICS


def made(history: History) -> list[tuple[str, dict[str, object]]]:
    found = []
    for number, event in enumerate(history.events):
        envelope = decode_envelope(encode(event.draft))
        for table, row in rows_of(Place(3, number), envelope, decode_data(envelope)):
            names = [column.name for column in BY_NAME[table].columns]
            found.append((table, dict(zip(names, row, strict=True))))
    return found


def test_every_registered_type_is_projected_or_named_as_not_projected() -> None:
    assert set(CURRENT) == PROJECTED | NOT_PROJECTED
    assert not PROJECTED & NOT_PROJECTED


def test_every_projected_type_is_in_the_made_up_day_so_that_every_row_is_checked() -> None:
    assert {event.draft.type for event in History().day(60).events} >= PROJECTED


def test_every_row_fills_exactly_the_columns_of_its_table() -> None:
    assert {table for table, _ in made(History().day(60))} == set(BY_NAME)


def test_a_table_holds_rows_of_one_topic_only() -> None:
    topic_of_type = {kind: topic for kind, topic in TOPIC_OF.items() if kind in PROJECTED}
    for event in History().day(60).events:
        envelope = decode_envelope(encode(event.draft))
        for table, _ in rows_of(Place(0, 0), envelope, decode_data(envelope)):
            assert BY_NAME[table].topic == topic_of_type[event.draft.type] == event.topic.name


def test_only_folded_topics_have_tables() -> None:
    assert {table.topic for table in TABLES} == {topic.name for topic in TOPICS}


def test_every_row_carries_the_place_of_its_record_in_the_log() -> None:
    for _, row in made(History().day(20)):
        assert row["log_partition"] == 3
        assert isinstance(row["log_offset"], int)


@pytest.mark.parametrize(
    ("tokens", "cost", "price"),
    [(Tokens(), None, None), (Tokens(input_uncached=0, output=0), 0, ListPrice())],
)
def test_unknown_stays_null_and_zero_stays_zero(
    tokens: Tokens, cost: int | None, price: ListPrice | None
) -> None:
    history = History()
    settled = UsageSettled(
        attempt=AttemptId("a"),
        target=TargetId("t"),
        pool=PoolId("p"),
        route="r",
        basis="estimated",
        outcome="orphaned",
        tokens=tokens,
        cost_nanousd=cost,
        price=price,
    )
    history.write(SIGNALS, "p", "a", settled)
    ((_, row),) = made(history)
    assert row["cost_nanousd"] == cost
    assert row["input_uncached"] == tokens.input_uncached
    assert row["output"] == tokens.output
    assert row["cache_read"] is None
    assert row["price_output"] is None
    assert row["tenant"] is None


def test_a_candidate_that_was_not_admitted_has_no_price() -> None:
    rows = [row for table, row in made(History().day(60)) if table == "r_candidates"]
    refused = [row for row in rows if row["reason"] is not None]
    assert refused
    assert all(row["price_nanousd"] is None and row["rank"] is None for row in refused)
    assert all(row["price_nanousd"] is not None for row in rows if row["rank"] is not None)


def test_the_price_of_an_attempt_is_kept_class_by_class() -> None:
    rows = [row for table, row in made(History().day(60)) if table == "r_settlements"]
    priced = [row for row in rows if row["price_output"]]
    assert priced[0]["price_cache_write_1h"] == PRICE.cache_write_1h
