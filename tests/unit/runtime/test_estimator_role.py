"""The estimator role: of two on one log the older says so, stands back and ends."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tidegate.events.errors import Fenced
from tidegate.runtime.machine import Machine
from tidegate.runtime.process import Stopping
from tidegate.runtime.roles import estimator
from tidegate.runtime.roles.estimator import EstimatorRole
from tidegate.runtime.settings import parse_settings


class FencedRunner:
    """What a runner does when a younger estimator has taken the partitions."""

    engine = None
    restarts = 0

    async def run(self, _stopping: Callable[[], bool]) -> None:
        raise Fenced("a younger writer exists")


@pytest.mark.parametrize("told_to_stop", [True, False])
async def test_a_role_that_was_fenced_off_says_so_and_leaves_the_log_alone_for_a_while(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, told_to_stop: bool
) -> None:
    said: list[tuple[str, str]] = []

    class Logger:
        def __getattr__(self, level: str) -> Callable[..., None]:
            return lambda event, **_facts: said.append((level, event))

    monkeypatch.setattr(estimator, "logger", Logger)
    monkeypatch.setattr(estimator, "FENCED_BACK_OFF_S", 3_600.0 if told_to_stop else 0.01)
    monkeypatch.setattr(EstimatorRole, "_new_runner", lambda *_: FencedRunner())
    machine = Machine(parse_settings('data_dir = "data"'), env={}, base=tmp_path)
    machine.make_folders()
    stopping, shown = Stopping(), list[dict[str, float]]()

    class Numbers:
        def __init__(self, _folder: Path, _slot: str, numbers: Callable[[], dict[str, float]]) -> None:
            self.numbers = numbers

        async def run(self) -> None:
            while ("error", "another estimator took over") not in said:
                await asyncio.sleep(0.001)
            shown.append(self.numbers())
            if told_to_stop:
                stopping.ask()

    monkeypatch.setattr(estimator, "MetricsServer", Numbers)
    async with asyncio.timeout(60):
        with pytest.raises(BaseExceptionGroup) as caught:
            await EstimatorRole(machine).run(stopping)
    assert _leaves(caught.value) == [Fenced]
    assert said.count(("error", "another estimator took over")) == 1
    if told_to_stop:
        assert [numbers["fenced"] for numbers in shown] == [1.0]


def _leaves(error: BaseException) -> list[type[Any]]:
    if isinstance(error, BaseExceptionGroup):
        return [kind for each in error.exceptions for kind in _leaves(each)]
    return [type(error)]
