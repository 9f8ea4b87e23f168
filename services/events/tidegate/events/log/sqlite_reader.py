"""Following the SQLite log: poll `data_version` of the role files, then read what is new in short slices."""

import asyncio
from collections import deque
from collections.abc import Iterable, Mapping, Sequence
from typing import NamedTuple

from tidegate.events.errors import LogCorrupt, Refused
from tidegate.events.log.places import topic_at
from tidegate.events.log.port import Record, TopicPartition
from tidegate.events.log.sqlite_rows import MAX_OFFSET, SLOTS
from tidegate.events.log.sqlite_view import NOTHING, RoleFileView, Span
from tidegate.events.topics import BY_NAME

_SLICE_RECORDS = 1_000
_LEAST_RECORDS = 16
_PAUSE_S = 0.001
_PAUSE_MAX_S = 0.02
_PAUSE_GROWTH = 1.5


class _Followed:
    """One file and the partitions read from it. `seen`: its version when a read last reached every end."""

    __slots__ = ("places", "seen", "view")

    def __init__(self, view: RoleFileView) -> None:
        self.view = view
        self.places: deque[TopicPartition] = deque()
        self.seen: int | None = None


class _Behind(NamedTuple):
    view: RoleFileView
    where: TopicPartition
    span: Span


class SqliteReader:
    """Follows partitions over the files of all roles, each on a connection of this reader."""

    def __init__(self, views: Mapping[str, RoleFileView], start: Mapping[TopicPartition, int]) -> None:
        self._positions: dict[TopicPartition, int] = {}
        self._files: dict[str, _Followed] = {}
        self._pause_s = _PAUSE_S
        for where, position in start.items():
            role = topic_at(where).role
            self._files.setdefault(role, _Followed(views[role])).places.append(where)
            self.seek(where, position)

    async def poll(self, max_records: int = 5_000, timeout_s: float = 0.0) -> Sequence[Record]:
        """Next records; see `Reader.poll`. Looks every 1 ms while records come, up to 20 ms when idle."""
        loop = asyncio.get_running_loop()
        deadline_s = loop.time() + timeout_s
        while True:
            await asyncio.sleep(0)  # a reader with a backlog must not starve its loop
            records = await self._read(max_records)
            left_s = deadline_s - loop.time()
            if records:
                self._pause_s = _PAUSE_S
                return records
            if left_s <= 0:
                return records
            await asyncio.sleep(min(self._pause_s, left_s))
            self._pause_s = min(self._pause_s * _PAUSE_GROWTH, _PAUSE_MAX_S)

    def positions(self) -> Mapping[TopicPartition, int]:
        """Next offset per partition."""
        return dict(self._positions)

    def seek(self, where: TopicPartition, position: int) -> None:
        """Continue `where` from `position`. Raises Refused for a partition that is not followed."""
        followed = self._files.get(topic_at(where).role)
        if followed is None or where not in followed.places:
            raise Refused(f"this reader does not follow {where.topic} partition {where.partition}")
        if not 0 <= position <= MAX_OFFSET:
            raise Refused(f"{position} is no position: 0 to {MAX_OFFSET}")
        self._positions[where] = position
        followed.seen = None

    async def close(self) -> None:
        """Close this reader's files."""
        for followed in self._files.values():
            followed.view.close()

    async def _read(self, max_records: int) -> list[Record]:
        positions = dict(self._positions)  # kept only when whole: a cancelled poll loses no record
        versions = {followed: followed.view.version() for followed in self._files.values()}
        behind = deque(
            item
            for followed, version in versions.items()
            if version is not None and version != followed.seen
            for item in self._behind(followed, positions)
        )
        shares = _shares(behind, positions, max_records)
        taken: list[Record] = []
        while behind and len(taken) < max_records:
            item = behind.popleft()
            limit = min(_SLICE_RECORDS, shares[item.where], max_records - len(taken))
            part = _next_slice(item, positions[item.where], limit)
            positions[item.where] = part[-1].offset + 1 if part else item.span[1]
            taken += part
            shares[item.where] = max(shares[item.where] - len(part), _LEAST_RECORDS)
            if positions[item.where] < item.span[1]:
                behind.append(item)
            await asyncio.sleep(0)
        self._positions = positions
        if not behind:
            for followed, version in versions.items():
                followed.seen = version
        return taken

    def _behind(self, followed: _Followed, positions: Mapping[TopicPartition, int]) -> list[_Behind]:
        spans = followed.view.spans()
        followed.places.rotate(-1)  # so that a partition with a long backlog does not starve the others
        behind: list[_Behind] = []
        for where in followed.places:
            span = spans.get(SLOTS[where], NOTHING)
            if positions[where] > span[1]:
                raise LogCorrupt(
                    f"{followed.view.path}: position {positions[where]} of {where.topic}/{where.partition} is"
                    f" beyond its end {span[1]}; records were lost, or it is a position of another log"
                )
            if positions[where] < span[1]:
                behind.append(_Behind(followed.view, where, span))
        return behind


def _shares(
    behind: Iterable[_Behind], positions: Mapping[TopicPartition, int], max_records: int
) -> dict[TopicPartition, int]:
    """How much of each partition to read before the next: in proportion to what waits there.

    So partitions written side by side are read side by side, and a backlog ends in all of them at once.
    """
    waiting = {item.where: item.span[1] - max(positions[item.where], item.span[0]) for item in behind}
    total = max(sum(waiting.values()), 1)
    return {where: max(max_records * count // total, _LEAST_RECORDS) for where, count in waiting.items()}


def _next_slice(item: _Behind, position: int, limit: int) -> list[Record]:
    view, where, span = item
    if not BY_NAME[where.topic].keeps_history:
        return view.latest(where, position, limit)
    records = view.history(where, position, limit)
    if not _follow(records, max(position, span[0]), span[1]):
        # Retention may have deleted a prefix between the two statements; nothing else makes a gap.
        begin, end = view.span(where)
        if not _follow(records, max(position, begin), end):
            first = max(position, begin)
            raise LogCorrupt(f"{view.path}: {where.topic}/{where.partition} lacks records from {first} on")
    return records


def _follow(records: Sequence[Record], first: int, end: int) -> bool:
    """True when `records` are exactly what a file without a hole holds from offset `first`."""
    if not records:
        return first >= end
    return records[0].offset == first and records[-1].offset == first + len(records) - 1
