"""When a Kafka reader says that nobody answers."""

from tidegate.events.log.kafka_silence import Silence


def test_a_partition_that_is_not_answered_for_is_named_after_the_time_allowed() -> None:
    silence: Silence[str] = Silence(stalled_s=10.0)
    assert silence.mute(0.0, {"a": 1, "b": 1}) == []
    assert silence.mute(9.9, {"a": 1, "b": 1}) == []
    assert silence.mute(10.0, {"a": 1, "b": 2}) == ["a"]


def test_a_partition_that_was_never_answered_for_counts_too() -> None:
    silence: Silence[str] = Silence(stalled_s=10.0)
    assert silence.mute(0.0, {"a": None}) == []
    assert silence.mute(10.0, {"a": None}) == ["a"]


def test_answers_without_records_are_no_silence() -> None:
    silence: Silence[str] = Silence(stalled_s=10.0)
    assert not any(silence.mute(float(now_s), {"a": now_s}) for now_s in range(100))


def test_time_starts_anew_when_records_came_or_silence_was_reported() -> None:
    silence: Silence[str] = Silence(stalled_s=10.0)
    assert silence.mute(0.0, {"a": 1}) == []
    assert silence.mute(9.0, {}) == []
    assert silence.mute(12.0, {"a": 1}) == []
    assert silence.mute(21.0, {"a": 1}) == []
    assert silence.mute(22.0, {"a": 1}) == ["a"]
    assert silence.mute(23.0, {"a": 1}) == []
