"""The content hash: equal exactly when the sorted rows are."""

from pathlib import Path

import pytest

from support.history import History
from support.read_model import LIMITS, folded, memory_log
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import REQUESTS
from tidegate.projections.content import content, differing
from tidegate.projections.store import Store

pytestmark = pytest.mark.slow  # each opens databases

ROWS = [(1, 5, "e1"), (1, 6, "e2"), (2, 5, None)]


def store_with(path: Path, rows: list[tuple[int, int, str | None]]) -> Store:
    store = Store.open(path, LIMITS)
    for row in rows:
        store.connection.execute(
            "INSERT INTO r_control (log_partition, log_offset, event) VALUES ($1, $2, $3)", list(row)
        )
    return store


@pytest.mark.parametrize(
    ("other", "equal"),
    [
        (list(reversed(ROWS)), True),
        (ROWS[:2], False),
        ([*ROWS, ROWS[0]], False),
        ([*ROWS, ROWS[0], ROWS[0]], False),
        ([(1, 5, "e1"), (1, 6, "e2"), (2, 5, "NULL")], False),
        ([(1, 5, "e1"), (1, 6, "e2"), (2, 5, "")], False),
        ([(1, 6, "e1"), (1, 5, "e2"), (2, 5, None)], False),
    ],
)
def test_order_does_not_matter_and_everything_else_does(
    tmp_path: Path, other: list[tuple[int, int, str | None]], equal: bool
) -> None:
    left, right = store_with(tmp_path / "a", ROWS), store_with(tmp_path / "b", other)
    found = differing(content(left.connection), content(right.connection))
    assert found == ([] if equal else ["r_control"])
    left.close()
    right.close()


async def test_content_up_to_positions_is_what_a_shorter_log_gives(tmp_path: Path) -> None:
    log = await memory_log(History().day(60).outgoing())
    await folded(log, tmp_path / "long")
    cut = {where: part.end // 2 for where, part in log.store.partitions.items()}
    for where, end in cut.items():
        del log.store.partitions[where].history[end:]
        log.store.partitions[where].end = end
    short = await folded(log, tmp_path / "short")
    store = Store.open(tmp_path / "long", LIMITS)
    assert content(store.connection, cut) == short
    assert content(store.connection) != short
    assert content(store.connection, {TopicPartition(REQUESTS.name, 0): 10**9})["r_attempts"].rows == 0
    store.close()
