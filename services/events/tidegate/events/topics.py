"""The topics, declared once: created and verified from here in every adapter."""

from enum import Enum

import msgspec

from tidegate.events.partition import PARTITIONS

PREFIX = "tidegate."
DAY_S = 86_400


class Kind(Enum):
    """What a topic keeps."""

    HISTORY = "history"
    HISTORY_AND_LATEST = "history+latest"
    LATEST = "latest"


class Topic(msgspec.Struct, frozen=True):
    """One topic: `role` is the only role that writes it."""

    name: str
    kind: Kind
    role: str
    retention_s: int | None
    partitions: int = PARTITIONS

    @property
    def keeps_history(self) -> bool:
        """True when offsets can be read from the start of retention."""
        return self.kind is not Kind.LATEST

    @property
    def keeps_latest(self) -> bool:
        """True when the newest record per key can be asked for."""
        return self.kind is not Kind.HISTORY


def _topic(short: str, kind: Kind, role: str, retention_s: int | None = 14 * DAY_S) -> Topic:
    return Topic(name=PREFIX + short, kind=kind, role=role, retention_s=retention_s)


REQUESTS = _topic("requests.v1", Kind.HISTORY, "relay")
SIGNALS = _topic("signals.v1", Kind.HISTORY, "relay")
SPEND = _topic("spend.v1", Kind.HISTORY, "relay")
CONTROL = _topic("control.v1", Kind.HISTORY_AND_LATEST, "control", None)
SNAPSHOTS = _topic("snapshots.v1", Kind.HISTORY_AND_LATEST, "estimator")
STATE = _topic("state.v1", Kind.LATEST, "estimator", None)
DEADLETTER = _topic("deadletter.v1", Kind.HISTORY, "relay")

TOPICS: tuple[Topic, ...] = (REQUESTS, SIGNALS, SPEND, CONTROL, SNAPSHOTS, STATE, DEADLETTER)
"""Order is part of the journal's frame format: append only."""

BY_NAME: dict[str, Topic] = {topic.name: topic for topic in TOPICS}
INDEX: dict[str, int] = {topic.name: index for index, topic in enumerate(TOPICS)}
ROLES: tuple[str, ...] = ("relay", "control", "estimator")
