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


class Correction(msgspec.Struct, frozen=True, kw_only=True):
    """A SettlementCorrected with the context of the attempt it corrects."""

    data: SettlementCorrected
    tenant: str | None
    request: str | None
    session: str | None
