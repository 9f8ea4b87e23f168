"""What a plan counts on is taken in the step that decides: bursts overrun neither caps, nor quota, nor a trial."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.bursts import answers, burst, connected
from support.fake_provider import Call, answer, gateway_over, route, target
from support.rig import PATIENCE_S, Rig
from tidegate.events.config import Routing
from tidegate.events.decision import DecisionMade
from tidegate.events.errors import JournalUnwritable
from tidegate.events.snapshots import RateSnapshot, TargetBelief, target_subject
from tidegate.events.types import TargetId
from tidegate.planner.replay import verify
from tidegate.planner.view import with_snapshots

CLIENTS = 30
ANSWER = {
    "object": "chat.completion",
    "model": "real",
    "choices": [
        {"index": 0, "finish_reason": "stop", "message": {"role": "assistant", "content": "high tide"}}
    ],
    "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
}
DOWN = answer({"error": {"message": "down", "type": "server_error"}}, status="503 Down")
CAPPED = "max_in_flight = 1"
PLAN = """pool = "plan"
"""
POOL = """[[pools]]
id = "plan"
billing = "flat"
[[pools.windows]]
id = "5h"
unit = "requests"
limit = 5
duration_s = 18000.0
"""


def by_model(**answers_of: bytes) -> Callable[[Call], bytes]:
    """The answer to a call of the target with that name."""
    return lambda call: answers_of[call.json["model"].removeprefix("real-")]


def one(extra: str, more: str = "") -> Callable[[str], str]:
    return lambda url: target("a", url, "openai", extra) + more + route("r", "a")


async def until(condition: Callable[[], bool]) -> None:
    async with asyncio.timeout(PATIENCE_S):
        while not condition():
            await asyncio.sleep(0.005)


def decisions(rig: Rig) -> list[DecisionMade]:
    return rig.data("DecisionMade")


def check_replay(rig: Rig, routing: Routing, snapshots: dict[str, RateSnapshot]) -> None:
    """The recorded local values are those the decision read, before it took anything itself."""
    assert {verify(made, routing, snapshots).outcome for made in decisions(rig)} == {"identical"}


async def test_a_burst_keeps_to_the_cap_on_attempts_in_flight(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, one(CAPPED), by_model(a=answer(ANSWER))) as (rig, provider):
        provider.wait = asyncio.Event()
        asked = asyncio.ensure_future(burst(rig, CLIENTS))
        await rig.wait_event("RequestRefused", CLIENTS - 1)
        provider.wait.set()
        assert Counter(await asked) == {200: 1, 503: CLIENTS - 1}
        assert len(provider.calls) == 1
        read = [made.candidates[0].local.in_flight for made in decisions(rig)]
        assert read == [0] + [1] * (CLIENTS - 1)
        check_replay(rig, rig.role.worker.serving.routing, {})
        assert await burst(rig, 1) == [200]  # the place was given back


async def test_a_burst_keeps_to_a_quota_window(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, one(PLAN, POOL), by_model(a=answer(ANSWER))) as (rig, provider):
        assert Counter(await burst(rig, CLIENTS)) == {200: 5, 503: CLIENTS - 5}
        assert len(provider.calls) == 5
        read = [[use.units for use in made.candidates[0].local.uses] for made in decisions(rig)]
        assert read == [[], [1], [2], [3], [4]] + [[5]] * (CLIENTS - 5)
        check_replay(rig, rig.role.worker.serving.routing, {})


async def test_a_target_that_is_tried_again_gets_one_request_of_a_burst(tmp_path: Path) -> None:
    async with gateway_over(tmp_path, one(""), by_model(a=answer(ANSWER))) as (rig, provider):
        follower: Any = rig.role.follower
        now_ns = rig.machine.clock.wall_ns()
        name = target_subject(TargetId("a"))
        belief = TargetBelief(circuit="probing")
        snapshot = RateSnapshot(
            subject=name, version=1, at_ns=now_ns, config=follower.view.digest, evidence=0, target=belief
        )
        follower._view = with_snapshots(follower.view, [snapshot])
        assert Counter(await burst(rig, CLIENTS)) == {200: 1, 503: CLIENTS - 1}
        assert len(provider.calls) == 1
        check_replay(rig, rig.role.worker.serving.routing, {name: snapshot})


@pytest.mark.parametrize(("extra", "more"), [(CAPPED, ""), (PLAN, POOL)])
async def test_failover_takes_no_place_that_others_took_since_the_plan(
    tmp_path: Path, extra: str, more: str
) -> None:
    def config(url: str) -> str:
        return target("a", url, "openai") + target("b", url, "openai", extra) + more + route("r", "a", "b")

    async with gateway_over(tmp_path, config, by_model(a=DOWN, b=answer(ANSWER))) as (rig, provider):
        provider.wait = asyncio.Event()
        asked = asyncio.ensure_future(burst(rig, CLIENTS))
        await until(lambda: len(provider.calls) == CLIENTS)  # all planned with the whole of b before them
        provider.wait.set()
        statuses = Counter(await asked)
        served = sum(call.json["model"] == "real-b" for call in provider.calls)
        assert served == statuses[200]
        assert 1 <= served <= 5 if more else served >= 1
        assert statuses[200] + statuses[503] + statuses[502] == CLIENTS
        in_flight = most_in_flight(rig, "b")
        assert in_flight <= (5 if more else 1)


def most_in_flight(rig: Rig, name: str) -> int:
    """The most attempts of a target that were open at a time, by what the journal says."""
    now = most = 0
    for envelope, data in rig.events("AttemptStarted", "UsageSettled"):
        if data.target == name:
            now += 1 if envelope.type == "AttemptStarted" else -1
            most = max(most, now)
    return most


async def test_an_attempt_whose_start_cannot_be_recorded_gives_its_place_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with gateway_over(tmp_path, one(CAPPED), by_model(a=answer(ANSWER))) as (rig, provider):
        journal = rig.role.worker.journal

        async def refuse(receipt: object) -> None:
            raise JournalUnwritable("full for a moment")

        with monkeypatch.context() as patch:
            patch.setattr(journal, "wait_committed", refuse)
            assert await answers(await connected(rig, 1)) == [503]
        assert provider.calls == []
        assert await answers(await connected(rig, 1)) == [200]
