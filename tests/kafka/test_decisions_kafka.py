"""Finding and replaying decisions on Kafka, where a poll without patience returns nothing."""

from __future__ import annotations

from collections.abc import Mapping

import msgspec
import pytest

from support.history import History, append
from support.kafka_log import kafka_event_log
from support.kafka_providers import Broker
from tidegate.analytics.decisions import Found, find_decision
from tidegate.analytics.replay_verify import verify
from tidegate.events.config import Routing
from tidegate.events.decision import DecisionMade
from tidegate.events.log.port import Outgoing
from tidegate.events.snapshots import RateSnapshot
from tidegate.events.topics import CONTROL, REQUESTS

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

POISON = [Outgoing(topic.name, 0, b"poison", b"\xff no event") for topic in (CONTROL, REQUESTS)]


class Verdict(msgspec.Struct):
    outcome: str = "identical"
    detail: str | None = None


def identical(_: DecisionMade, _routing: Routing, _read: Mapping[str, RateSnapshot], /) -> Verdict:
    return Verdict()


async def test_a_decision_is_found_and_replayed_in_a_log_with_records_that_are_no_event(
    kafka: Broker,
) -> None:
    history = History().day(20)
    made = [e.draft.data for e in history.events if isinstance(e.draft.data, DecisionMade)]
    newest = max(made, key=lambda decision: decision.now_ns)
    async with kafka_event_log(kafka) as log:
        await append(log, [*POISON, *history.outgoing(), *POISON])
        assert await find_decision(log, None, None) == Found(newest)
        assert await find_decision(log, None, made[3].decision) == Found(made[3])
        assert await find_decision(log, None, "nobody") is None
        report = await verify(log, identical)
    assert report.identical == report.decisions == len(made)
