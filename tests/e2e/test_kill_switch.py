"""The local kill-switch: in force at once without the log, recorded, replayed when the log is there."""

from __future__ import annotations

import asyncio
from pathlib import Path

import httpx

from support.rig import KEY, Rig, running_rig
from tidegate.events import codec
from tidegate.events.topics import CONTROL
from tidegate.events.types import TargetId
from tidegate.runtime.control import Control
from tidegate.runtime.local_switch import Order, throw, waiting
from tidegate.runtime.roles.admin import AdminRole


async def target_of(rig: Rig) -> str:
    async with httpx.AsyncClient(timeout=30) as client:
        answer = await client.post(
            f"{rig.url}/v1/chat/completions",
            json={"model": "chat", "messages": [{"role": "user", "content": "hi"}]},
            headers={"authorization": f"Bearer {KEY}"},
        )
    return answer.headers["x-tidegate-target"]


def order(*, disabled: bool) -> Order:
    return Order(target=TargetId("one-openai"), disabled=disabled, actor="ops", reason="smoke")


async def test_a_local_switch_acts_at_once_and_is_recorded_with_its_reason(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        assert await target_of(rig) == "one-openai"
        assert await throw(rig.machine, order(disabled=True)) == {"gw-0": {"ok": True}}
        assert await target_of(rig) == "two-openai"
        decisions = await rig.wait_event("DecisionMade", 2)
        assert decisions[1].candidates[0].reason == "disabled"
        assert await throw(rig.machine, order(disabled=False)) == {"gw-0": {"ok": True}}
        assert await target_of(rig) == "one-openai"
        assert [held.disabled for _, held in waiting(rig.machine)] == [True, False]


async def test_admin_replays_recorded_switches_into_the_log_once(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        await throw(rig.machine, order(disabled=True))
        log = rig.machine.open_log(("control",))
        control = Control(log, rig.machine.clock, rig.machine.ids)
        admin = AdminRole(rig.machine, tmp_path / "tidegate.toml", None)
        await admin._replay_switches(control)
        await admin._replay_switches(control)
        assert waiting(rig.machine) == []
        latest, _ = await log.latest(CONTROL.name)
        record = latest[b"target:one-openai"]
        assert record.value is not None
        event = codec.decode_data(codec.decode_envelope(record.value))
        assert (type(event).__name__, event.actor, event.reason) == ("TargetDisabled", "ops", "smoke")
        await log.close()


async def test_an_unknown_target_or_garbage_changes_nothing(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        answer = await throw(rig.machine, Order(target=TargetId("nobody"), disabled=True, actor="ops"))
        assert answer["gw-0"]["error"] == "there is no target nobody"
        reader, writer = await asyncio.open_unix_connection(str(rig.machine.run_dir / "gw-0.switch"))
        writer.write(b"\xff")
        writer.write_eof()
        assert b'"ok":false' in await reader.read()
        writer.close()
        assert await target_of(rig) == "one-openai"
