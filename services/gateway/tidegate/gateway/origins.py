"""Who produced what is quoted of earlier answers: what one provider signed or sealed, another one refuses."""

from collections.abc import Callable

from tidegate.gateway.dialects import proofs
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.history import NOBODY, Trust

MAX_PROOFS = 50_000
MAX_SESSIONS = 20_000


class Origins:
    """What this worker saw itself: the latest proofs, by digest, and the latest sessions in which one was refused.

    What it does not know (another worker, an earlier run) is told as it is, until a provider refuses it.
    """

    __slots__ = ("_makers", "_max_proofs", "_max_sessions", "_rivals", "_wary")

    def __init__(self, max_proofs: int = MAX_PROOFS, max_sessions: int = MAX_SESSIONS) -> None:
        self._makers: dict[bytes, str] = {}
        self._rivals: dict[Wire, set[str]] = {}
        self._wary: dict[tuple[str, str], None] = {}
        self._max_proofs = max_proofs
        self._max_sessions = max_sessions

    def learn(self, client: Wire, provider: str, answer: bytes) -> None:
        """`provider` made what stands in this answer, or in these events of one, as the client got it."""
        for digest in proofs.found(client, answer):
            self._rivals.setdefault(client, set()).add(provider)
            self._makers.pop(digest, None)
            self._makers[digest] = provider
            if len(self._makers) > self._max_proofs:
                del self._makers[next(iter(self._makers))]

    def trust(self, client: Wire, session: str, provider: str, raw: bytes) -> Trust | None:
        """What `provider` can be told of a request's history; None: all of it, as far as is known."""
        if self._wary and (session, provider) in self._wary:
            return self._own(client, provider, raw)
        rivals = self._rivals.get(client)
        if not rivals or (len(rivals) == 1 and provider in rivals):
            return None
        made = {digest: self._makers.get(digest, provider) for digest in proofs.found(client, raw)}
        foreign = frozenset(digest for digest, maker in made.items() if maker != provider)
        return Trust(provider, foreign) if foreign else None

    def distrust(
        self, client: Wire, session: str, provider: str, raw: bytes, differ: Callable[[Trust, Trust], bool]
    ) -> bool:
        """`provider` refused the history of this session: from now on only what is its own is told, and if that was
        refused, nothing that needs to be proved.

        `differ` says whether a request is told differently by the second one. False is returned where nothing is
        left to leave out.
        """
        told = self.trust(client, session, provider, raw) or NOBODY
        if not differ(told, self._own(client, provider, raw)):
            if not differ(told, Trust(provider, own=frozenset())):
                return False
            for digest in proofs.found(client, raw):
                self._makers.pop(digest, None)
        self._wary[session, provider] = None
        if len(self._wary) > self._max_sessions:
            del self._wary[next(iter(self._wary))]
        return True

    def _own(self, client: Wire, provider: str, raw: bytes) -> Trust:
        digests = proofs.found(client, raw)
        return Trust(provider, own=frozenset(d for d in digests if self._makers.get(d) == provider))
