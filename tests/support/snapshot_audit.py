"""What an estimator that was killed again and again has published: no snapshot twice, none left out."""

from __future__ import annotations

from collections import defaultdict

import msgspec

from support.log_reading import read_all
from tidegate.estimator.state import Row
from tidegate.estimator.uvi import STATUSES
from tidegate.events import codec
from tidegate.events.config import Routing
from tidegate.events.log.port import EventLog, TopicPartition
from tidegate.events.partition import PARTITIONS
from tidegate.events.snapshots import RateSnapshot, pool_subject, target_subject
from tidegate.events.topics import SNAPSHOTS, STATE


async def check_snapshots(log: EventLog, routing: Routing) -> int:
    """Every subject of the config has snapshots of dense versions, and the stored row of a version holds what
    that snapshot told. Returns how many snapshots there are."""
    newest, _ = await log.latest(STATE.name)  # first: whoever still runs may publish more meanwhile
    rows = {
        key.decode(): msgspec.json.decode(record.value, type=Row)
        for key, record in newest.items()
        if record.value is not None and not key.startswith(b"marks:")
    }
    told: dict[str, list[RateSnapshot]] = defaultdict(list)
    places = [TopicPartition(SNAPSHOTS.name, p) for p in range(PARTITIONS)]
    for record in await read_all(log, places):
        assert record.value is not None
        envelope = codec.decode_envelope(record.value)
        if envelope.type == "RateSnapshot":
            snapshot: RateSnapshot = codec.decode_data(envelope)
            told[snapshot.subject].append(snapshot)
    targets = {target_subject(target.id) for target in routing.targets}
    with_windows = {pool_subject(pool.id) for pool in routing.pools if pool.windows}
    assert targets | with_windows <= told.keys() <= rows.keys()
    for subject, snapshots in told.items():
        assert [each.version for each in snapshots] == list(range(1, len(snapshots) + 1)), subject
        row = rows[subject]
        _check_row(row, snapshots[row.version - 1])
    return sum(map(len, told.values()))


def _check_row(row: Row, snapshot: RateSnapshot) -> None:
    assert snapshot.version == row.version > 0, row.subject
    if snapshot.target is not None:
        assert not snapshot.target.output_tokens_per_s.prior  # type: ignore[union-attr]
    if snapshot.pool is not None:
        published = {window.window: window.status for window in snapshot.pool.windows}
        assert published == {window.id: STATUSES[window.status] for window in row.windows}, row.subject
