"""Rows of different partitions commute; duplicates add nothing: whatever the order, the content is one."""

import random
from collections.abc import Sequence
from functools import cache
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.history import History
from support.read_model import LIMITS
from tidegate.events.log.port import Outgoing, Record, TopicPartition
from tidegate.projections.content import Content, content
from tidegate.projections.ingest import Ingest
from tidegate.projections.store import Store

pytestmark = pytest.mark.slow  # each opens databases


@cache
def log_of() -> dict[TopicPartition, list[Record]]:
    """The partitions of a day's log, each with the rewinds of a relay in it: repeated runs of records."""
    history = History(seed=5).day(40)
    history.close_source("gw-0")
    rng = random.Random(7)
    partitions: dict[TopicPartition, list[Outgoing]] = {}
    for outgoing in history.outgoing():
        where = TopicPartition(outgoing.topic, outgoing.partition)
        partitions.setdefault(where, []).append(outgoing)
    logs: dict[TopicPartition, list[Record]] = {}
    for where, sent in partitions.items():
        records = logs.setdefault(where, [])
        for index in range(len(sent)):
            back = rng.randrange(4) if rng.random() < 0.2 else 0
            records += [
                Record(*where, len(records) + n, out.key, out.value, 1)
                for n, out in enumerate(sent[max(0, index - back) : index + 1])
            ]
    return logs


def clean() -> dict[TopicPartition, list[Record]]:
    """The same log without any record that came twice."""
    found: dict[TopicPartition, list[Record]] = {}
    for where, records in log_of().items():
        seen: set[bytes] = set()
        kept = found.setdefault(where, [])
        for record in records:
            if record.value not in seen:
                seen.add(record.value or b"")
                kept.append(record)
    return found


def folded(
    order: Sequence[TopicPartition], cuts: random.Random, log: dict[TopicPartition, list[Record]]
) -> Content:
    """Content after folding the partitions in chunks, in the order in which `order` names them."""
    with TemporaryDirectory() as folder:
        store = Store.open(Path(folder) / "m.duckdb", LIMITS)
        ingests = {where: Ingest(where) for where in log}
        at = dict.fromkeys(log, 0)
        waiting = list(order)
        while waiting:
            turn = [waiting.pop(0) for _ in range(min(len(waiting), cuts.randrange(1, 9)))]
            parts = []
            for where in dict.fromkeys(turn):
                size = cuts.randrange(1, 400)
                chunk = log[where][at[where] : at[where] + size]
                at[where] += len(chunk)
                parts.append(ingests[where].fold(chunk, chunk[-1].offset + 1 if chunk else at[where]))
                if at[where] < len(log[where]):
                    waiting.append(where)
            store.apply(parts)
        result = content(store.connection)
        store.close()
        return result


@cache
def expected() -> Content:
    """The content after the plainest order."""
    return folded(sorted(log_of()), random.Random(0), log_of())


@settings(max_examples=8, deadline=None)
@given(order=st.permutations(sorted(log_of())), seed=st.integers(0, 2**32))
def test_any_order_of_partitions_and_any_cut_gives_the_same_content(
    order: list[TopicPartition], seed: int
) -> None:
    assert folded(order, random.Random(seed), log_of()) == expected()


def test_records_that_came_twice_add_nothing() -> None:
    doubled, single = log_of(), clean()
    assert sum(map(len, doubled.values())) > sum(map(len, single.values())) > 100
    assert folded(sorted(doubled), random.Random(1), doubled) == folded(
        sorted(single), random.Random(2), single
    )
