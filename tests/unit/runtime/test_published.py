"""A published target id stays what it is: checked against every config that was ever in force."""

from __future__ import annotations

import asyncio
from pathlib import Path

import pytest
from msgspec.structs import replace

from tidegate.events.clock import ManualClock, SystemClock
from tidegate.events.config import Key, Routing, Target
from tidegate.events.ids import IdSource
from tidegate.events.log.memory import MemoryEventLog
from tidegate.events.types import KeyId, PoolId, TargetId, TenantId
from tidegate.runtime.control import Control
from tidegate.runtime.local_switch import Order, _record, waiting
from tidegate.runtime.machine import Machine
from tidegate.runtime.published import IdentityChanged, published_configs
from tidegate.runtime.ready import published_mistakes
from tidegate.runtime.routing_follower import RoutingFollower
from tidegate.runtime.settings import parse_settings

A = Target(
    id=TargetId("a"),
    dialect="openai",
    base_url="https://api.example.test",
    model="m",
    secret="env:A",
)
CHANGES = [
    ("model", replace(A, model="other")),
    ("pool", replace(A, pool=PoolId("plan"))),
    ("provider", replace(A, provider="other")),
    ("secret", replace(A, secret="env:B")),
]


def routing(*targets: Target) -> Routing:
    return Routing(targets=targets)


def control(log: MemoryEventLog) -> Control:
    machine = Machine(parse_settings('data_dir = "/none"'), env={})
    return Control(log, machine.clock, machine.ids)


@pytest.mark.parametrize(("field", "changed"), CHANGES)
async def test_a_published_id_is_not_given_to_another_upstream(field: str, changed: Target) -> None:
    log = MemoryEventLog(SystemClock())
    admin = control(log)
    assert await admin.publish_if_new(routing(A), "test") is True
    with pytest.raises(IdentityChanged, match=f"another {field}: give the target a new id") as caught:
        await admin.publish_if_new(routing(changed), "test")
    assert [mistake.path for mistake in caught.value.mistakes] == [("targets", 0, field)]
    assert await admin.newest_digest() == routing(A).digest()
    renamed = routing(A, replace(changed, id=TargetId("b")))
    assert await admin.publish_if_new(renamed, "test") is True


async def test_a_clock_that_was_ahead_lets_no_older_config_win() -> None:
    """The older has a key that the newer revokes: who starts later must not find it in force again."""
    clock = ManualClock()
    log = MemoryEventLog(clock)
    admin = control(log)
    key = Key(id=KeyId("b1"), tenant=TenantId("acme"), digest=f"sha256:{'0' * 64}")
    both, revoking = replace(routing(A), keys=(key,)), routing(A)
    clock.jump_wall_ns(600 * 10**9)
    assert await admin.publish_if_new(both, "op") is True
    clock.jump_wall_ns(-600 * 10**9)
    assert await admin.publish_if_new(revoking, "op") is True
    assert await admin.publish_if_new(revoking, "op") is False, "it is the one in force"
    assert await admin.newest_digest() == revoking.digest()
    assert (await published_configs(log))[-1].digest == revoking.digest()
    follower = RoutingFollower(log, revoking)
    task = asyncio.create_task(follower.run())
    try:
        for _ in range(20):
            await asyncio.sleep(0)
            assert follower().digest() == revoking.digest()
        assert await admin.publish_if_new(both, "op") is True
        while follower().digest() != both.digest():
            await asyncio.sleep(0.01)
    finally:
        task.cancel()


def test_orders_that_wait_for_the_log_keep_their_order_when_the_clock_goes_back(tmp_path: Path) -> None:
    machine = Machine(parse_settings('data_dir = "data"'), env={}, base=tmp_path)
    for ahead_ns, disabled in ((3_600 * 10**9, True), (0, False), (0, True), (0, False)):
        clock = ManualClock(1_800_000_000 * 10**9 + ahead_ns)
        machine.ids = IdSource(clock, lambda bits: 0)  # each order is a command of its own
        _record(machine, Order(target=TargetId("a"), disabled=disabled, actor="op"))
    assert [order.disabled for _, order in waiting(machine)] == [True, False, True, False]


async def test_taking_a_target_out_for_a_while_does_not_free_its_id() -> None:
    log = MemoryEventLog(SystemClock())
    admin = control(log)
    for config in (routing(A), routing()):
        assert await admin.publish_if_new(config, "test") is True
    with pytest.raises(IdentityChanged):
        await admin.publish_if_new(routing(replace(A, model="other")), "test")
    assert await admin.publish_if_new(routing(A), "test") is True
    assert [config.routing for config in await published_configs(log)][-1] == routing(A)


async def test_everything_else_of_a_target_may_change() -> None:
    admin = control(MemoryEventLog(SystemClock()))
    assert await admin.publish_if_new(routing(A), "test") is True
    later = replace(A, base_url="https://other.example.test", enabled=False, max_in_flight=3)
    assert await admin.publish_if_new(routing(later), "test") is True
    assert await admin.publish_if_new(routing(later), "test") is False
    # A pool's id defaults to the target's: saying it is no change.
    assert await admin.publish_if_new(routing(replace(later, pool=PoolId("a"))), "test") is True


async def test_a_folder_without_a_log_has_published_nothing(tmp_path: Path) -> None:
    text = 'data_dir = "data"\n[[targets]]\nid = "a"\ndialect = "openai"\nbase_url = "https://x.test"\nmodel = "{}"'
    machine = Machine(parse_settings(text.format("m")), env={}, base=tmp_path)
    assert await published_mistakes(machine) == []
    assert not machine.data_dir.exists()
    log = machine.open_log(("control",))
    await Control(log, machine.clock, machine.ids).publish_if_new(machine.settings.routing(), "test")
    await log.close()
    assert await published_mistakes(machine) == []
    changed = Machine(parse_settings(text.format("n")), env={}, base=tmp_path)
    (mistake,) = await published_mistakes(changed)
    assert mistake.path == ("targets", 0, "model")
