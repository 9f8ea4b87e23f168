"""Type name + version ↔ struct and topics: the list that golden tests walk."""

from typing import Any

import msgspec

from tidegate.events import control, decision, requests, signals, snapshots, topics

CURRENT: dict[str, int] = {}
STRUCTS: dict[tuple[str, int], type[msgspec.Struct]] = {}
TOPIC_OF: dict[str, str | None] = {}
"""Topic of each type; None = belongs to every topic."""
TYPES: dict[type, tuple[str, int]] = {}
"""Name and current version by struct."""


def _register(struct: type[msgspec.Struct], topic: topics.Topic | None, version: int = 1) -> None:
    name = struct.__name__
    STRUCTS[name, version] = struct
    CURRENT[name] = version
    TYPES[struct] = name, version
    TOPIC_OF[name] = None if topic is None else topic.name


_BY_TOPIC: tuple[tuple[topics.Topic | None, tuple[type[msgspec.Struct], ...]], ...] = (
    (
        topics.REQUESTS,
        (
            requests.RequestAdmitted,
            requests.RequestRefused,
            requests.RequestFinished,
            decision.DecisionMade,
        ),
    ),
    (
        topics.SIGNALS,
        (
            signals.AttemptStarted,
            signals.FirstTokenSeen,
            signals.UsageSettled,
            signals.AttemptFailed,
            signals.SettlementCorrected,
            signals.DemandSeen,
            signals.QuotaObserved,
        ),
    ),
    (topics.CONTROL, (control.ConfigPublished, control.TargetEnabled, control.TargetDisabled)),
    (topics.SNAPSHOTS, (snapshots.RateSnapshot, snapshots.Applied)),
    (topics.DEADLETTER, (control.DeadLetter,)),
    (None, (control.SourceClosed,)),
)

for _topic, _structs in _BY_TOPIC:
    for _struct in _structs:
        _register(_struct, _topic)


def type_of(data: Any) -> tuple[str, int]:
    """Type name and current version of an event's data. Raises KeyError for a struct that is no event."""
    return TYPES[type(data)]
