"""How far the read model has come, and waiting for it."""

import asyncio
from collections.abc import Mapping

from tidegate.events.log.port import TopicPartition
from tidegate.projections.errors import NotCaughtUp


class Progress:
    """Committed positions; advanced by the runner, awaited by queries of the same loop."""

    def __init__(self, positions: Mapping[TopicPartition, int]) -> None:
        self.positions = dict(positions)
        self._moved = asyncio.Event()

    def advance(self, positions: Mapping[TopicPartition, int]) -> None:
        """These positions are committed now."""
        self.positions.update(positions)
        self._moved.set()
        self._moved = asyncio.Event()

    def covers(self, wanted: Mapping[TopicPartition, int]) -> bool:
        """True when every wanted position is committed."""
        return all(self.positions.get(where, 0) >= position for where, position in wanted.items())

    async def wait(self, wanted: Mapping[TopicPartition, int], timeout_s: float) -> None:
        """Return when every wanted position is committed. Raises NotCaughtUp."""
        try:
            async with asyncio.timeout(timeout_s):
                while not self.covers(wanted):
                    await self._moved.wait()
        except TimeoutError as error:
            behind = ", ".join(
                f"{where.topic}[{where.partition}] is at {self.positions.get(where, 0)}, not {position}"
                for where, position in wanted.items()
                if self.positions.get(where, 0) < position
            )
            raise NotCaughtUp(f"the read model is behind: {behind}", retry_after_s=1.0) from error
