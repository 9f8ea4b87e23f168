"""What a journal's file needs ten times a second: room is judged, relayed rows go, an empty file shrinks."""

import contextlib
from collections.abc import Callable

from tidegate.events.journal.space import Space
from tidegate.events.journal.store import JournalStore

DELETE_EVENTS = 1_000
SHRINK_FREE_BYTES = 64 * 1024 * 1024
SHRINK_USED_BYTES = 1024 * 1024
SHRINK_RETRY_ROUNDS = 600


class Upkeep:
    """Small bounded steps on the loop, so that nobody waits for them. `on_shrunk`: a checkpoint is wanted."""

    def __init__(self, store: JournalStore, space: Space, on_shrunk: Callable[[], None]) -> None:
        self._store = store
        self._space = space
        self._on_shrunk = on_shrunk
        self._rounds_to_shrink = 0

    def step(self, needed_from: int) -> bool:
        """Do what is due; rows that end below seq `needed_from` may go. True when more of them are left.

        Raises JournalUnwritable, JournalCorrupt.
        """
        used, free = self._store.sizes()
        with contextlib.suppress(OSError):
            self._space.check(used)
        is_more = self._store.delete_below(needed_from, DELETE_EVENTS)
        self._rounds_to_shrink -= 1
        if used < SHRINK_USED_BYTES and free > SHRINK_FREE_BYTES and self._rounds_to_shrink < 0:
            self._rounds_to_shrink = SHRINK_RETRY_ROUNDS
            self._store.shrink()
            self._on_shrunk()
        return is_more
