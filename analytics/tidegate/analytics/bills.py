"""What providers bill and what follows from it: plain values."""

import msgspec

from tidegate.events.money import Tokens
from tidegate.events.signals import SettlementCorrected
from tidegate.events.types import AttemptId, TargetId


class BillLine(msgspec.Struct, frozen=True, kw_only=True):
    """What a provider billed for one call. `attempt` is the id we sent along, None when it names none."""

    attempt: str | None
    provider: str
    tokens: Tokens
    """Classes the provider does not tell apart are None."""
    cost_nanousd: int


class AbsurdLine(msgspec.Struct, frozen=True, kw_only=True):
    """A line that cannot be true: a cost or count below 0 or beyond all reason, or none at all."""

    provider: str
    line: int
    """Its place on the bill, from 1."""
    attempt: AttemptId | None
    """None: it names none."""
    reason: str


class Bill(msgspec.Struct, frozen=True, kw_only=True):
    """A provider's bill. An attempt on one of `targets` that began from `complete_from_ns` on, settled before
    `complete_until_ns` and has no line was not billed, unless the provider itself has said what it was; None:
    the bill may still lack lines, so their absence says nothing."""

    provider: str
    targets: frozenset[TargetId]
    lines: tuple[BillLine, ...]
    complete_from_ns: int = 0
    complete_until_ns: int | None = None
    open: frozenset[AttemptId] = frozenset()
    """Calls the provider was still serving when the bill was drawn: it says nothing of them yet."""
    absurd: tuple[AbsurdLine, ...] = ()
    """Lines that are not taken: of their attempts the bill says nothing, and where one names no attempt, nothing
    of those it has no line of."""

    def is_silent_of(self, attempt: AttemptId) -> bool:
        """Whether it has, or may have, a line of this attempt that cannot be taken."""
        return attempt in self.open or any(line.attempt == attempt for line in self.absurd)

    @property
    def is_complete(self) -> bool:
        """Whether having no line of an attempt says that it was not billed."""
        return self.complete_until_ns is not None and all(line.attempt is not None for line in self.absurd)


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """A SettlementCorrected with the context of the attempt it corrects."""

    data: SettlementCorrected
    tenant: str | None
    request: str | None
    session: str | None
