"""The ledger as a fold of the log."""

import random
from pathlib import Path

import pytest

from support.history import History, append
from support.read_model import asked, folded, memory_log
from tidegate.analytics.ledger import Entry, Ledger, read_ledger, totals
from tidegate.events.codec import decode_data, decode_envelope, encode
from tidegate.events.errors import UnknownEvent
from tidegate.events.log.port import Outgoing
from tidegate.events.money import Tokens
from tidegate.events.signals import SettlementCorrected, UsageSettled
from tidegate.events.topics import SIGNALS
from tidegate.events.types import AttemptId, PoolId, TargetId


async def test_it_equals_the_read_models_ledger_row_by_row(tmp_path: Path) -> None:
    log = await memory_log(History().day(120).outgoing())
    ledger = await read_ledger(log)
    await folded(log, tmp_path / "m.duckdb")
    rows = asked(
        tmp_path / "m.duckdb",
        "SELECT attempt, tenant, target, basis, corrections, ledger_nanousd, input_uncached, output FROM v_ledger",
    )
    assert {
        (
            e.attempt,
            e.tenant,
            e.target,
            e.basis,
            e.corrections,
            e.ledger_nanousd,
            e.tokens.input_uncached,
            e.tokens.output,
        )
        for e in ledger.entries.values()
    } == set(rows)
    opened = asked(tmp_path / "m.duckdb", "SELECT attempt FROM v_unsettled")
    assert set(ledger.open) == {attempt for (attempt,) in opened}
    assert ledger.open


async def test_what_a_relay_sent_twice_counts_once() -> None:
    history = History().day(60)
    once = await read_ledger(await memory_log(history.outgoing()))
    twice = await memory_log()
    for record in history.outgoing():
        await append(twice, [record, record])
    again = await read_ledger(twice)
    assert again.entries == once.entries
    assert again.open == once.open


async def test_partitions_may_come_in_any_order() -> None:
    history = History().day(60)
    straight = await read_ledger(await memory_log(history.outgoing()))
    by_partition: dict[str, list[object]] = {}
    for event in history.events:
        by_partition.setdefault(event.partition_key, []).append(event)
    pools = list(by_partition)
    random.Random(4).shuffle(pools)
    shuffled = Ledger()
    for pool in pools:
        for event in (e for e in history.events if e.partition_key == pool and e.topic is SIGNALS):
            envelope = decode_envelope(encode(event.draft))
            shuffled.fold(envelope, decode_data(envelope))
    assert shuffled.entries == straight.entries


async def test_a_signal_of_an_unknown_type_stops_the_fold() -> None:
    future = b'{"id":"x","type":"FromTheFuture","v":1,"ts":1,"source":"gw","seq":1,"data":{}}'
    log = await memory_log([Outgoing(SIGNALS.name, 0, b"x", future)])
    with pytest.raises(UnknownEvent):
        await read_ledger(log)


async def test_bytes_that_are_no_envelope_are_passed_over() -> None:
    log = await memory_log([Outgoing(SIGNALS.name, 0, b"x", b"junk"), Outgoing(SIGNALS.name, 0, b"x", None)])
    assert (await read_ledger(log)).entries == {}


def entry(cost: int | None, **fields: object) -> Entry:
    return Entry(
        attempt=AttemptId("a"),
        target=TargetId("t"),
        pool=PoolId("p"),
        route="r",
        tenant="acme",
        request="r",
        session="s",
        settled_ns=1,
        basis=fields.pop("basis", "reported"),  # type: ignore[arg-type]
        outcome="completed",
        tokens=Tokens(),
        settled_nanousd=cost,
        **fields,  # type: ignore[arg-type]
    )


def test_an_unknown_cost_is_counted_apart_and_never_as_zero() -> None:
    assert entry(None).ledger_nanousd is None
    assert entry(None, corrections=1, delta_nanousd=5).ledger_nanousd == 5
    sums = totals([entry(2**53 + 1), entry(None), entry(2)])
    assert (sums.attempts, sums.nanousd, sums.unpriced) == (3, 2**53 + 3, 1)


@pytest.mark.parametrize(
    ("basis", "corrections", "confirmed"),
    [("reported", 0, True), ("estimated", 0, False), ("none", 0, False), ("estimated", 1, True)],
)
def test_only_the_provider_confirms(basis: str, corrections: int, confirmed: bool) -> None:
    assert entry(1, basis=basis, corrections=corrections).is_confirmed == confirmed


def test_a_correction_of_a_number_that_is_taken_or_of_no_settlement_changes_nothing() -> None:
    ledger = Ledger()
    history = History()
    settled = UsageSettled(
        attempt=AttemptId("a"),
        target=TargetId("t"),
        pool=PoolId("p"),
        route="r",
        basis="estimated",
        outcome="completed",
        cost_nanousd=10,
    )
    envelope = decode_envelope(encode(history.write(SIGNALS, "p", "a", settled).draft))
    ledger.fold(envelope, settled)

    def corrected(attempt: str, delta: int, number: int) -> SettlementCorrected:
        return SettlementCorrected(
            attempt=AttemptId(attempt),
            target=TargetId("t"),
            pool=PoolId("p"),
            delta_nanousd=delta,
            tokens=Tokens(),
            evidence="bill",
            correction=number,
        )

    for correction in (
        corrected("a", 5, 0),
        corrected("a", 7, 0),
        corrected("nobody", 9, 0),
        corrected("a", 1, 1),
    ):
        ledger.fold(envelope, correction)
    ledger.fold(envelope, settled)
    assert ledger.entries[AttemptId("a")].ledger_nanousd == 16
    assert list(ledger.entries) == ["a"]
