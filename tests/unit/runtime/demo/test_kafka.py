"""A Kafka for a demo: where none can be had the reason is said, and what was started is stopped."""

from pathlib import Path
from typing import ClassVar

import pytest

from tidegate.events.errors import Broken
from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.runtime.demo import kafka
from tidegate.runtime.demo.kafka import KafkaMissing, kafka_log
from tidegate.runtime.kafka_dev.errors import DevKafkaError


async def test_a_machine_without_java_is_told_what_to_do(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def nothing(_: object) -> None:
        raise DevKafkaError("no Java 17 or newer")

    monkeypatch.setattr(kafka, "install", nothing)
    said: list[str] = []
    with pytest.raises(KafkaMissing, match=r"no Java 17 or newer .*--bootstrap"):
        async with kafka_log(None, tmp_path / "kafka", said.append):
            pytest.fail("there is no Kafka")
    assert said == ["starting a Kafka node"]


async def test_topics_are_made_under_a_new_prefix_with_as_many_copies_as_there_are_brokers(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    asked: list[KafkaSettings] = []

    async def apply(settings: KafkaSettings) -> list[str]:
        asked.append(settings)
        return []

    monkeypatch.setattr(kafka, "apply_topics", apply)
    for bootstrap, copies, in_sync in (("a:1", 1, 1), ("a:1,b:2", 2, 2), ("a:1,b:2,c:3,d:4", 3, 2)):
        async with kafka_log(bootstrap, Path("unused"), lambda _: None) as choice:
            assert (choice.bootstrap, choice.replication) == (bootstrap, copies)
        assert (asked[-1].replication, asked[-1].min_in_sync) == (copies, in_sync)
        assert asked[-1].prefix == choice.prefix
    assert len({settings.prefix for settings in asked}) == 3


async def test_topics_that_are_not_as_declared_end_the_demo(monkeypatch: pytest.MonkeyPatch) -> None:
    async def apply(_: KafkaSettings) -> list[str]:
        return ["tidegate.requests.v1: 3 partitions, not 12"]

    monkeypatch.setattr(kafka, "apply_topics", apply)
    with pytest.raises(Broken, match="3 partitions, not 12"):
        async with kafka_log("a:1", Path("unused"), lambda _: None):
            pytest.fail("the topics are wrong")


class FakeCluster:
    """A cluster that remembers what was done with it."""

    bootstrap = "127.0.0.1:1"
    done: ClassVar[list[str]] = []

    def __init__(self, *_: object) -> None:
        self.done.clear()

    def __enter__(self) -> "FakeCluster":
        self.done.append("started")
        return self

    def close(self) -> None:
        self.done.append("stopped")


async def test_a_node_that_was_started_is_stopped_whatever_happens(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def apply(_: KafkaSettings) -> list[str]:
        return []

    monkeypatch.setattr(kafka, "install", lambda _: None)
    monkeypatch.setattr(kafka, "KafkaCluster", FakeCluster)
    monkeypatch.setattr(kafka, "apply_topics", apply)

    async def broken_demo() -> None:
        async with kafka_log(None, tmp_path, lambda _: None) as choice:
            assert choice.bootstrap == FakeCluster.bootstrap
            raise RuntimeError("the demo broke")

    with pytest.raises(RuntimeError, match="the demo broke"):
        await broken_demo()
    assert FakeCluster.done == ["started", "stopped"]
