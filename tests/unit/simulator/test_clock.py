"""Virtual time wakes sleepers in order and never stands still unnoticed."""

import asyncio

import pytest

from tidegate.simulator.clock import SystemClock, VirtualClock


async def test_sleepers_wake_in_order_of_deadline_and_then_of_call() -> None:
    clock = VirtualClock(start_s=100)
    woken: list[tuple[str, float]] = []

    async def sleeper(name: str, duration_s: float) -> None:
        await clock.sleep(duration_s)
        woken.append((name, clock.now_s()))

    async def all_of_them() -> None:
        await asyncio.gather(
            sleeper("late", 3), sleeper("first", 1), sleeper("second", 1), sleeper("none", 0)
        )

    await clock.run(all_of_them())
    assert woken == [("none", 100), ("first", 101), ("second", 101), ("late", 103)]


async def test_advance_wakes_only_what_is_due_and_ends_at_its_instant() -> None:
    clock = VirtualClock(start_s=0)
    early, late = asyncio.ensure_future(clock.sleep(2)), asyncio.ensure_future(clock.sleep(5))
    await clock.advance(4)
    assert (early.done(), late.done(), clock.now_s()) == (True, False, 4)
    await clock.advance(1)
    assert late.done()


async def test_a_cancelled_sleeper_does_not_move_time() -> None:
    clock = VirtualClock(start_s=0)
    gone = asyncio.ensure_future(clock.sleep(50))
    await asyncio.sleep(0)
    gone.cancel()
    await clock.run(clock.sleep(1))
    assert clock.now_s() == 1


async def test_work_that_no_sleeper_will_wake_is_reported() -> None:
    with pytest.raises(RuntimeError, match="stands still"):
        await VirtualClock().run(asyncio.Event().wait())


async def test_system_time_goes_on_while_it_sleeps() -> None:
    clock = SystemClock()
    before_s = clock.now_s()
    await clock.sleep(0.001)
    await clock.sleep(-1)
    assert clock.now_s() > before_s > 1_700_000_000
