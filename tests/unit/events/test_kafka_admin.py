"""Asking a cluster of which a broker is down: any broker is asked, until one that is up."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.errors import ClusterAuthorizationFailedError, KafkaConnectionError, NodeNotReadyError

from tidegate.events.log import kafka_admin


class Brokers:
    """Answers as an administrator does whose broker is picked at random."""

    def __init__(self, *answers: Exception | list[dict[str, Any]]) -> None:
        self.answers = list(answers)

    async def describe_topics(self) -> list[dict[str, Any]]:
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


async def test_a_broker_that_is_down_is_passed_over_for_another(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(kafka_admin, "_VISIBLE_POLL_S", 0)
    brokers: Any = Brokers(NodeNotReadyError("1"), KafkaConnectionError("1"), [{"topic": "a"}])
    assert await kafka_admin._described(brokers) == {"a": {"topic": "a"}}
    assert not brokers.answers


async def test_a_refusal_is_no_broker_that_is_down() -> None:
    brokers: Any = Brokers(ClusterAuthorizationFailedError("no"), [{"topic": "a"}])
    with pytest.raises(ClusterAuthorizationFailedError):
        await kafka_admin._described(brokers)
