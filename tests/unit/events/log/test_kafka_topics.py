"""How declared topics look in Kafka."""

import pytest

from tidegate.events.log.kafka_settings import KafkaSettings
from tidegate.events.log.kafka_topics import (
    Drift,
    Found,
    drifts,
    latest_name,
    origin,
    planned,
    positions_drift,
    read_origin,
    unusable,
)
from tidegate.events.topics import CONTROL, SIGNALS, STATE, TOPICS

PLAN = planned(TOPICS, prefix="x.", replication=3, in_sync=2)


def test_a_topic_with_history_and_latest_is_two_kafka_topics() -> None:
    names = [topic.name for topic in planned([CONTROL], prefix="x.", replication=3, in_sync=2)]
    assert names == ["x.tidegate.control.v1", "x.tidegate.control-latest.v1"]


def test_a_topic_without_history_keeps_its_name() -> None:
    assert latest_name(STATE, "") == "tidegate.state.v1"


def test_history_is_deleted_by_age_and_never_where_it_is_kept_for_ever() -> None:
    retention = {topic.name: topic.config.get("retention.ms") for topic in PLAN}
    assert retention["x.tidegate.signals.v1"] == str(14 * 86_400_000)
    assert retention["x.tidegate.control.v1"] == "-1"


def test_latest_topics_are_compacted_and_every_topic_has_the_brokers_time() -> None:
    assert {t.name for t in PLAN if t.config["cleanup.policy"] == "compact"} == {
        "x.tidegate.control-latest.v1",
        "x.tidegate.snapshots-latest.v1",
        "x.tidegate.state.v1",
    }
    assert {t.config["message.timestamp.type"] for t in PLAN} == {"LogAppendTime"}


def test_a_cluster_as_declared_has_no_drift() -> None:
    found = {t.name: Found(t.partitions, t.replication, {**t.config, "other": "1"}) for t in PLAN}
    assert drifts(PLAN, found) == []


def test_numbers_are_compared_as_numbers() -> None:
    (topic,) = planned([STATE], prefix="", replication=1, in_sync=1)
    found = Found(12, 1, {**topic.config, "min.cleanable.dirty.ratio": "0.10"})
    assert drifts([topic], {topic.name: found}) == []


@pytest.mark.parametrize(
    ("found", "setting", "value"),
    [
        (Found(6, 3, {}), "partitions", "6"),
        (Found(12, 1, {}), "replication", "1"),
        (Found(12, 3, {"retention.ms": "5"}), "retention.ms", "5"),
        (Found(12, 3, {"cleanup.policy": "compact"}), "cleanup.policy", "compact"),
        (Found(12, 3, {"min.insync.replicas": "1"}), "min.insync.replicas", "1"),
    ],
)
def test_each_difference_is_named(found: Found, setting: str, value: str) -> None:
    (topic,) = planned([SIGNALS], prefix="", replication=3, in_sync=2)
    there = Found(found.partitions, found.replication, {**topic.config, **found.config})
    (drift,) = drifts([topic], {topic.name: there})
    assert (drift.setting, drift.found) == (setting, value)
    assert f"{setting} is {value}, expected " in str(drift)


def test_a_missing_topic_is_one_drift() -> None:
    assert len(drifts(PLAN, {})) == len(PLAN)
    assert str(drifts(PLAN, {})[0]) == "x.tidegate.requests.v1: topic is missing, expected 12 partitions"


@pytest.mark.parametrize(("minutes", "count"), [("43200", 0), ("10080", 1), (None, 1)])
def test_a_broker_that_forgets_positions_before_records_is_reported(minutes: str | None, count: int) -> None:
    config = {} if minutes is None else {"offsets.retention.minutes": minutes}
    found = positions_drift(config)
    assert found == [Drift("(brokers)", "offsets.retention.minutes", "at least 43200", minutes)] * count


def test_the_origin_of_a_copy_survives_its_header() -> None:
    assert read_origin([("other", b"x"), origin(1 << 40, 1_800_000_000_000)]) == (1 << 40, 1_800_000_000_000)
    assert read_origin([]) is None


def test_secrets_do_not_show() -> None:
    settings = KafkaSettings("host:9092", "id", sasl_username="user", sasl_password="hidden")
    assert "hidden" not in repr(settings)
    assert settings.client_options()["sasl_plain_password"] == "hidden"


@pytest.mark.parametrize(
    "wrong", [{"ack_deadline_s": 10.0}, {"ack_deadline_s": 0.0}, {"min_in_sync": 4}, {"min_in_sync": 0}]
)
def test_settings_that_cannot_work_are_refused(wrong: dict[str, float]) -> None:
    with pytest.raises(ValueError, match="must lie between"):
        KafkaSettings("host:9092", "id", **wrong)  # type: ignore[arg-type]


def test_a_topic_cut_otherwise_is_told_with_what_mends_it_and_apply_is_not_said_to() -> None:
    right = {topic.name: topic.partitions for topic in PLAN}
    assert unusable(PLAN, right) is None
    assert unusable(PLAN, {**right, "of somebody else": 3}) is None
    for count in (1, 99):
        said = unusable(PLAN, {**right, PLAN[0].name: count})
        assert said is not None
        assert f"{PLAN[0].name} has {count} partitions instead of {PLAN[0].partitions}" in said
        assert "which `topics apply` does not change" in said
        assert "`log.topic_prefix`" in said
        assert "lacks" not in said
    absent = {name: count for name, count in right.items() if name != PLAN[1].name}
    assert unusable(PLAN, absent) == f"lacks topics, run `tidegate topics apply`: {PLAN[1].name}"
    both = unusable(PLAN, {**absent, PLAN[0].name: 99})
    assert both is not None
    assert both.startswith(f"lacks topics, run `tidegate topics apply`: {PLAN[1].name}; it has topics")
