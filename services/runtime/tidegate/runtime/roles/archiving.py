"""The archiver beside the relay: whatever is wrong with the archive stops only the archive."""

import asyncio
from typing import TYPE_CHECKING

from tidegate.events.log.port import EventLog
from tidegate.runtime.machine import Machine
from tidegate.runtime.telemetry import facts_of, logger

if TYPE_CHECKING:
    from tidegate.events.archive import Archiver

ARCHIVE_EVERY_S = 60.0


class Archiving:
    """Takes the archive's folder, archives once a minute, and begins anew after every fault."""

    def __init__(self, machine: Machine, log: EventLog) -> None:
        self._machine = machine
        self._log = log
        self._archiver: Archiver | None = None
        self._rows = 0
        self._is_standing = False

    def numbers(self) -> dict[str, float]:
        """For the metrics socket."""
        return {"archived_rows_total": self._rows, "archive_standing": float(self._is_standing)}

    async def run(self) -> None:
        """Archive until cancelled. Nothing is raised: the log deletes only what is archived, so that all an
        archive can do by standing still is to let the log grow."""
        try:
            while True:
                try:
                    await self._once()
                except Exception as error:  # noqa: BLE001 - the relay runs in this process and must go on
                    self._stand_still(error)
                else:
                    self._goes_on()
                await asyncio.sleep(ARCHIVE_EVERY_S)
        finally:
            self._close()

    async def _once(self) -> None:
        if self._archiver is None:
            self._archiver = await self._open()
        await self._archive(self._archiver)

    async def _open(self) -> "Archiver":
        # Here, because a machine that archives nothing needs no Parquet.
        from tidegate.events.archive import Archiver

        opening = asyncio.ensure_future(asyncio.to_thread(Archiver, self._log, self._machine.archive_dir))
        try:
            return await asyncio.shield(opening)
        except asyncio.CancelledError:
            (await opening).close()
            raise

    async def _archive(self, archiver: "Archiver") -> None:
        from tidegate.events.archive_retention import delete_archived
        from tidegate.events.log.sqlite import SqliteEventLog

        machine = self._machine
        now_ns = machine.clock.wall_ns()
        done = await archiver.run(now_ns - int(machine.settings.log.archive_after_s * 1e9))
        self._rows += done.rows
        if done.holes:
            logger().error("records were dropped before they were archived", count=len(done.holes))
        if isinstance(self._log, SqliteEventLog):
            await delete_archived(self._log, archiver.manifest, frozenset({"relay"}), now_ns)

    def _stand_still(self, error: Exception) -> None:
        self._close()  # the next try looks at what is there then
        self._is_standing = True
        logger().error("archive stands still", backoff_s=ARCHIVE_EVERY_S, **facts_of(error))

    def _goes_on(self) -> None:
        if self._is_standing:
            self._is_standing = False
            logger().info("archive goes on")

    def _close(self) -> None:
        archiver, self._archiver = self._archiver, None
        if archiver is not None:
            archiver.close()
