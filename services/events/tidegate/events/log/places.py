"""Which topics and partitions exist, checked before any adapter acts on a name."""

from collections.abc import Iterable

from tidegate.events.errors import Refused
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.events.topics import BY_NAME, Topic


def topic_named(name: str) -> Topic:
    """The declared topic. Raises Refused for a name that is not declared."""
    topic = BY_NAME.get(name)
    if topic is None:
        raise Refused(f"unknown topic {name!r}; declared are {', '.join(BY_NAME)}")
    return topic


def topic_at(where: TopicPartition) -> Topic:
    """The topic of an existing partition. Raises Refused when topic or partition does not exist."""
    topic = topic_named(where.topic)
    if not 0 <= where.partition < topic.partitions:
        raise Refused(f"{where.topic} has partitions 0 to {topic.partitions - 1}, not {where.partition}")
    return topic


def latest_topic(name: str) -> Topic:
    """The topic, which keeps the latest record per key. Raises Refused when it does not."""
    topic = topic_named(name)
    if not topic.keeps_latest:
        raise Refused(f"{name} keeps no latest record per key: it is of kind {topic.kind.value}")
    return topic


def partitions_asked(topic: Topic, partitions: Iterable[int] | None) -> list[TopicPartition]:
    """The asked partitions of a topic, all by default. Raises Refused when one does not exist."""
    asked = range(topic.partitions) if partitions is None else partitions
    places = [TopicPartition(topic.name, partition) for partition in asked]
    for where in places:
        topic_at(where)
    return places


def role_of(records: Iterable[Outgoing]) -> str | None:
    """The one role that writes all these records, None when there are none.

    Raises Refused when a place does not exist or the records belong to several roles: each role has a
    file or a process of its own, and no write spans two.
    """
    places = {record[:2] for record in records}
    roles = {topic_at(TopicPartition(*where)).role for where in places}
    if len(roles) > 1:
        raise Refused(f"one write stays within one role, these records belong to {', '.join(sorted(roles))}")
    return next(iter(roles), None)
