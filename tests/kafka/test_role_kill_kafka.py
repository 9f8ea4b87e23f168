"""kill -9 of each role under load on a real broker: the same promises as on the embedded log."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.fleet import ROLES, Fleet, kafka_table
from support.kafka_log import kafka_event_log, kafka_settings
from support.kafka_providers import Broker
from support.kills import kill_under_load

pytestmark = [pytest.mark.kafka, pytest.mark.crash, pytest.mark.slow]


@pytest.mark.parametrize(
    ("roles", "kills"),
    [
        pytest.param(ROLES, 3, id="each-role-3-times"),
        *(pytest.param([role], 10, id=f"{role}-10-times", marks=pytest.mark.nightly) for role in ROLES),
    ],
)
async def test_roles_killed_one_at_a_time_under_load_cost_no_event_and_no_money(
    kafka: Broker, tmp_path: Path, roles: Sequence[str], kills: int
) -> None:
    settings = kafka_settings(kafka)
    async with kafka_event_log(kafka, settings), Fleet(tmp_path, log=kafka_table(settings)) as fleet:
        await fleet.start(*ROLES)
        killer = await kill_under_load(fleet, roles, kills)
        await killer.audit()
