"""The same agents with the gateway in between, to upstreams of every dialect: the ledger equals the invoice."""

from __future__ import annotations

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from support.agents_checks import check_task
from support.agents_commands import AGENTS
from support.agents_gateway import ROUTE, THROUGH, UPSTREAMS, check_ledger, gateway
from support.agents_install import NotInstallable
from support.agents_isolation import why_impossible
from support.agents_runs import run

pytestmark = [pytest.mark.nightly, pytest.mark.slow]


@pytest.fixture
def folder() -> Iterator[Path]:
    """Sockets have short names: a folder of pytest's would not fit."""
    with tempfile.TemporaryDirectory(prefix="tg", ignore_cleanup_errors=True) as name:
        yield Path(name)


@pytest.mark.parametrize("upstream", UPSTREAMS)
@pytest.mark.parametrize("name", AGENTS)
def test_an_agent_does_its_task_through_the_gateway_and_the_ledger_equals_the_invoice(
    name: str, upstream: str, folder: Path
) -> None:
    reason = why_impossible()
    if reason is not None:
        pytest.skip(reason)
    try:
        ran = run(AGENTS[name], folder, target=THROUGH, between=[gateway(folder, {ROUTE: upstream})])
    except NotInstallable as error:
        pytest.skip(str(error))
    check_task(name, ran, folder)
    assert [(record["status"], record["outcome"]) for record in ran.records] == [(200, "completed")] * len(
        AGENTS[name].script
    )
    check_ledger(folder, ran.invoice)
