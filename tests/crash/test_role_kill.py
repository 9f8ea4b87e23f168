"""kill -9 of each role under load, with faults of the providers on: nothing is lost, nothing is doubled, and
the ledger becomes the providers' bill."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from support.fleet import ROLES, Fleet
from support.kills import Killer, kill_under_load

pytestmark = [pytest.mark.crash, pytest.mark.slow]


@pytest.mark.parametrize(
    ("roles", "kills"),
    [
        pytest.param(ROLES, 3, id="each-role-3-times"),
        *(pytest.param([role], 10, id=f"{role}-10-times", marks=pytest.mark.nightly) for role in ROLES),
    ],
)
async def test_roles_killed_one_at_a_time_under_load_cost_no_event_and_no_money(
    tmp_path: Path, roles: Sequence[str], kills: int
) -> None:
    async with Fleet(tmp_path) as fleet:
        await fleet.start(*ROLES)
        killer: Killer = await kill_under_load(fleet, roles, kills)
        await killer.audit()
