"""Tell a broker that has nothing new from one that does not answer. Pure."""

from collections.abc import Mapping
from typing import Generic, TypeVar

Place = TypeVar("Place")


class Silence(Generic[Place]):
    """aiokafka waits for a lost broker without a word: while nothing comes, every partition must at least
    be answered for once in `stalled_s`."""

    __slots__ = ("_heard", "_since_s", "_stalled_s")

    def __init__(self, stalled_s: float) -> None:
        self._stalled_s = stalled_s
        self._since_s = 0.0
        self._heard: dict[Place, int | None] = {}

    def mute(self, now_s: float, heard: Mapping[Place, int | None]) -> list[Place]:
        """Partitions whose last answer is the same as `stalled_s` ago.

        `heard` is the time stamp of the last answer for each partition (None: never), or empty when records
        came: what was read meanwhile may have kept the others from being asked.
        """
        if not heard or not self._heard:
            self._watch(now_s, heard)
            return []
        if now_s - self._since_s < self._stalled_s:
            return []
        mute = [place for place, stamp in heard.items() if self._heard.get(place) == stamp]
        self._watch(now_s, heard)
        return mute

    def _watch(self, now_s: float, heard: Mapping[Place, int | None]) -> None:
        self._since_s = now_s
        self._heard = dict(heard)
