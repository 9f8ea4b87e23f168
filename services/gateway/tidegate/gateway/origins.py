"""Who produced the assistant turns of a session: what one provider signed or sealed, another one refuses."""

from collections.abc import Callable

from tidegate.gateway.dialects.history import Turns

MAX_SESSIONS = 20_000
_Known = str | tuple[str | None, ...]
"""One provider for all turns so far; or, since a second one answered, one for each turn."""


class Origins:
    """What this worker saw itself, of its latest sessions. Turns are counted only after a change of provider."""

    __slots__ = ("_known", "_max")

    def __init__(self, max_sessions: int = MAX_SESSIONS) -> None:
        self._known: dict[str, _Known] = {}
        self._max = max_sessions

    def foreign(self, session: str, provider: str, count: Callable[[], int]) -> Turns | None:
        """The turns of a session as `provider` must be told of them; None where no other's are known.

        `count` tells how many assistant turns the request holds.
        """
        known = self._known.get(session)
        if known is None or known == provider:
            return None
        return Turns(provider, (known,) * count() if isinstance(known, str) else known)

    def is_changing(self, session: str, provider: str) -> bool:
        """Whether `note` of this answer will have to count."""
        known = self._known.get(session)
        return known is not None and known != provider

    def note(self, session: str, provider: str, count: Callable[[], int | None]) -> None:
        """`provider` has answered: the next assistant turn is its own. A session whose turns nobody can count is
        forgotten: nothing known is better than turns of the wrong provider."""
        known = self._known.pop(session, None)
        if known is None or known == provider:
            self._known[session] = provider
        elif (turns := count()) is not None:
            before = (known,) * turns if isinstance(known, str) else known[:turns]
            self._known[session] = (*before, *(None,) * (turns - len(before)), provider)
        if len(self._known) > self._max:
            del self._known[next(iter(self._known))]
