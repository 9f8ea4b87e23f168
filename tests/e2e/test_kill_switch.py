"""The local kill-switch: in force at once without the log, recorded, replayed when the log is there."""

from __future__ import annotations

import asyncio
import getpass
import os
from pathlib import Path

import httpx
import msgspec
import pytest

from support.rig import KEY, Rig, running_rig
from tidegate.events import codec
from tidegate.events.config import Target
from tidegate.events.topics import CONTROL
from tidegate.events.types import TargetId
from tidegate.runtime import metrics
from tidegate.runtime.commands.targets import _actor
from tidegate.runtime.control import Control
from tidegate.runtime.local_switch import HOLD_EVERY_S, Order, folder_of, throw, waiting
from tidegate.runtime.roles.admin import AdminRole, build_app

TOKEN = "a-token-long-enough-to-be-one"


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


@pytest.mark.parametrize("log", ["there", "away"])
async def test_a_gateway_that_starts_takes_the_orders_that_wait_before_its_first_request(
    tmp_path: Path, log: str
) -> None:
    away = '[log]\nkind = "kafka"\nbootstrap = "127.0.0.1:1"'
    async with running_rig(tmp_path, extra="" if log == "there" else away) as rig:
        assert await throw(rig.machine, order(disabled=True)) == {"gw-0": {"ok": True}}
    async with running_rig(tmp_path, extra="" if log == "there" else away) as rig:
        assert await target_of(rig) == "two-openai"
        assert await throw(rig.machine, order(disabled=False)) == {"gw-0": {"ok": True}}
        assert await target_of(rig) == "one-openai"


async def test_an_order_holds_against_what_an_older_log_says_until_it_is_in_the_log(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        await throw(rig.machine, order(disabled=True))
        await until_log_says(rig, disabled=False)
    async with running_rig(tmp_path) as rig:
        # Until the log was read, whatever it says then, and a moment longer.
        async with asyncio.timeout(10):
            while (await metrics.collect(rig.machine.run_dir))["gw-0"]["view_staleness_s"] < 0:
                await asyncio.sleep(0.01)
        await asyncio.sleep(2 * HOLD_EVERY_S)
        assert await target_of(rig) == "two-openai"


async def until_log_says(rig: Rig, *, disabled: bool) -> None:
    log = rig.machine.open_log(("control",))
    control = Control(log, rig.machine.clock, rig.machine.ids)
    await control.switch(TargetId("one-openai"), disabled=disabled, actor="before", reason="")
    await log.close()


async def test_an_order_for_a_target_that_no_gateway_knows_is_not_left_for_the_log(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        await throw(rig.machine, Order(target=TargetId("nobody"), disabled=True, actor="ops"))
        assert waiting(rig.machine) == []


async def test_a_file_that_is_no_order_is_set_aside(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        await throw(rig.machine, order(disabled=True))
        (folder_of(rig.machine) / "garbage.json").write_bytes(b"{")
        for _ in range(2):
            assert [held.target for _, held in waiting(rig.machine)] == ["one-openai"]
        async with asyncio.timeout(10):
            while not (folder_of(rig.machine) / "garbage.unreadable").exists():
                await asyncio.sleep(0.01)


async def test_admin_switches_a_target_that_was_published_after_it_started(tmp_path: Path) -> None:
    async with running_rig(tmp_path) as rig:
        log = rig.machine.open_log(("control",))
        control = Control(log, rig.machine.clock, rig.machine.ids)
        later = msgspec.convert(
            {**msgspec.to_builtins(rig.machine.settings.targets[0]), "id": "later"}, Target
        )
        routing = rig.machine.settings.routing()
        app = build_app(rig.machine, control, tmp_path / "tidegate.toml", TOKEN)
        transport = httpx.ASGITransport(app=app)
        headers = {"authorization": f"Bearer {TOKEN}"}
        async with httpx.AsyncClient(transport=transport, base_url="http://admin", headers=headers) as client:
            assert (await client.post("/admin/targets/later/disable")).status_code == 404
            await control.publish_if_new(
                msgspec.structs.replace(routing, targets=(*routing.targets, later)), "test"
            )
            assert (await client.post("/admin/targets/later/disable")).status_code == 200
            assert (await client.post("/admin/targets/nobody/disable")).status_code == 404
        await log.close()


def test_a_user_without_a_name_is_recorded_by_number(monkeypatch: pytest.MonkeyPatch) -> None:
    def nobody() -> str:
        raise KeyError("getpwuid(): uid not found: 10001")

    monkeypatch.setattr(getpass, "getuser", nobody)
    assert _actor() == f"uid {os.getuid()}"


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
