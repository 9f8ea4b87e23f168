"""How the declared topics look in Kafka: names, settings, and where a cluster differs. Pure."""

import struct
from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from tidegate.events.topics import Topic

_HOUR_MS = 3_600_000
# The broker forgets a group's positions this long after the last commit: longer than any topic is kept.
POSITIONS_KEPT_S = 30 * 86_400
POSITIONS_KEPT = "offsets.retention.minutes"


@dataclass(frozen=True, slots=True)
class KafkaTopic:
    """A topic as Kafka is asked to create it; `config` holds only what we depend on."""

    name: str
    partitions: int
    replication: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Found:
    """A topic as the cluster describes it; `replication` is the smallest of its partitions."""

    partitions: int
    replication: int
    config: Mapping[str, str]


@dataclass(frozen=True, slots=True)
class Drift:
    """One setting that is not as declared; `found` None: the thing is missing."""

    topic: str
    setting: str
    expected: str
    found: str | None

    def __str__(self) -> str:
        return f"{self.topic}: {self.setting} is {self.found or 'missing'}, expected {self.expected}"


def history_name(topic: Topic, prefix: str) -> str:
    """The Kafka topic that is read by position."""
    return prefix + topic.name


def latest_name(topic: Topic, prefix: str) -> str:
    """The compacted Kafka topic: `x.v1` keeps its history, `x-latest.v1` its latest records."""
    if not topic.keeps_history:
        return prefix + topic.name
    stem, dot, version = topic.name.rpartition(".")
    return f"{prefix}{stem}-latest{dot}{version}"


def is_copied(topic: Topic) -> bool:
    """Whether each record stands in two Kafka topics."""
    return topic.keeps_history and topic.keeps_latest


def planned(topics: Iterable[Topic], *, prefix: str, replication: int, in_sync: int) -> list[KafkaTopic]:
    """Every Kafka topic that `topics` need; `in_sync` replicas must have a record before it is acknowledged."""
    plan: list[KafkaTopic] = []
    for topic in topics:
        shared = {"min.insync.replicas": str(in_sync), "message.timestamp.type": "LogAppendTime"}
        if topic.keeps_history:
            config = {**shared, **_deleted_by_age(topic.retention_s)}
            plan.append(KafkaTopic(history_name(topic, prefix), topic.partitions, replication, config))
        if topic.keeps_latest:
            config = {**shared, **_COMPACTED}
            plan.append(KafkaTopic(latest_name(topic, prefix), topic.partitions, replication, config))
    return plan


def _deleted_by_age(retention_s: int | None) -> dict[str, str]:
    kept_ms = -1 if retention_s is None else retention_s * 1_000
    return {"cleanup.policy": "delete", "retention.ms": str(kept_ms)}


_COMPACTED = {
    "cleanup.policy": "compact",
    # Small segments, soon closed: the open one is never compacted.
    "segment.bytes": str(32 << 20),
    "segment.ms": str(_HOUR_MS // 6),
    "min.cleanable.dirty.ratio": "0.1",
    "max.compaction.lag.ms": str(_HOUR_MS),
    # Longer than the slowest reader's restart, which must still see that a key is gone.
    "delete.retention.ms": str(24 * _HOUR_MS),
}


def drifts(plan: Iterable[KafkaTopic], found: Mapping[str, Found]) -> list[Drift]:
    """Every difference between plan and cluster, in the order of the plan."""
    differences: list[Drift] = []
    for topic in plan:
        there = found.get(topic.name)
        if there is None:
            differences.append(Drift(topic.name, "topic", f"{topic.partitions} partitions", None))
            continue
        expected = {
            "partitions": str(topic.partitions),
            "replication": str(topic.replication),
            **topic.config,
        }
        actual = {**there.config, "partitions": str(there.partitions), "replication": str(there.replication)}
        differences += [
            Drift(topic.name, setting, value, actual.get(setting))
            for setting, value in expected.items()
            if not _same(value, actual.get(setting))
        ]
    return differences


def positions_drift(broker_config: Mapping[str, str]) -> list[Drift]:
    """The drift of a broker that would forget positions before the records they point at are gone."""
    minutes = broker_config.get(POSITIONS_KEPT)
    if minutes is not None and int(minutes) * 60 >= POSITIONS_KEPT_S:
        return []
    return [Drift("(brokers)", POSITIONS_KEPT, f"at least {POSITIONS_KEPT_S // 60}", minutes)]


def _same(expected: str, found: str | None) -> bool:
    if found is None:
        return False
    try:  # Kafka may write 0.1 as 0.10
        return float(expected) == float(found)
    except ValueError:
        return expected == found


_ORIGIN = struct.Struct(">qq")
ORIGIN_HEADER = "o"


def origin(offset: int, append_ms: int) -> tuple[str, bytes]:
    """Header of a latest record: where and when the same record stands in the history."""
    return ORIGIN_HEADER, _ORIGIN.pack(offset, append_ms)


def read_origin(headers: Iterable[tuple[str, bytes]]) -> tuple[int, int] | None:
    """(offset, append time in ms) in the history; None for a record that has no history."""
    for name, value in headers:
        if name == ORIGIN_HEADER:
            offset, append_ms = _ORIGIN.unpack(value)
            return int(offset), int(append_ms)
    return None


def unusable(plan: Iterable[KafkaTopic], partitions: Mapping[str, int]) -> str | None:
    """What topics lack to be worked on, and what mends it; None when each has its partitions, given by name."""
    plan = tuple(plan)
    absent = [topic.name for topic in plan if topic.name not in partitions]
    other = [
        f"{topic.name} has {partitions[topic.name]} partitions instead of {topic.partitions}"
        for topic in plan
        if partitions.get(topic.name, topic.partitions) != topic.partitions
    ]
    said: list[str] = []
    if absent:
        said.append(f"lacks topics, run `tidegate topics apply`: {', '.join(absent)}")
    if other:
        said.append(
            f"has topics that are cut otherwise, which `topics apply` does not change: {', '.join(other)};"
            " keys would be found in other partitions. Set another `log.topic_prefix`, or delete topics that hold"
            " nothing you need, then run `tidegate topics apply`"
        )
    return "; it ".join(said) or None
