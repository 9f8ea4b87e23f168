"""What a fault or a shape is."""

from collections.abc import Mapping
from typing import Literal, NamedTuple


class FaultKind(NamedTuple):
    """What a fault does, its parameters with their defaults, and what is billed.

    Faults that bill nothing strike before admission: they use no quota.
    """

    what: str
    params: Mapping[str, str]
    bill: Literal["nothing", "so far", "all"]
