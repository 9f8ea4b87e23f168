"""Retention of the SQLite log: only what is archived, old enough and still whole in its file is deleted."""

import asyncio
from typing import Protocol

from tidegate.events.archive_manifest import Manifest, assert_whole
from tidegate.events.log.port import TopicPartition
from tidegate.events.topics import TOPICS


class Deletable(Protocol):
    """A log that forgets history on command."""

    async def begin(self, where: TopicPartition) -> int:
        """Oldest offset still kept."""
        ...

    async def delete_before(self, where: TopicPartition, offset: int) -> None:
        """Delete history below `offset`."""
        ...


async def delete_archived(log: Deletable, manifest: Manifest, roles: frozenset[str], now_ns: int) -> int:
    """Delete records of the roles' topics beyond their retention; returns how many offsets were freed.

    A file is hashed again before the only other copy of its records goes. Raises LogCorrupt when it
    changed or is missing: then its records stay in the log.
    """
    manifest.refresh()
    freed = 0
    for topic in TOPICS:
        if topic.role not in roles or not topic.keeps_history or topic.retention_s is None:
            continue
        oldest_ns = now_ns - topic.retention_s * 1_000_000_000
        for partition in range(topic.partitions):
            where = TopicPartition(topic.name, partition)
            freed += await _delete_old(log, manifest, where, oldest_ns)
    return freed


async def _delete_old(log: Deletable, manifest: Manifest, where: TopicPartition, oldest_ns: int) -> int:
    begin = await log.begin(where)
    freed = 0
    for file in manifest.files(where):
        if file.end <= begin:
            continue
        if file.start > begin or file.last_append_ns >= oldest_ns:
            break
        await asyncio.to_thread(assert_whole, manifest.folder, file)
        await log.delete_before(where, file.end)
        freed += file.end - begin
        begin = file.end
    return freed
