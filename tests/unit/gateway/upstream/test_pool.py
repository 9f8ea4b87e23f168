"""The pool's books: whatever happens in whatever order, slots are neither lost nor invented, and waiters keep
their order."""

import asyncio
from math import inf

import pytest
from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from support.loops import on_both_loops
from tidegate.gateway.outbound.faults import ConnectFailed, ConnectionLost, PoolExhausted
from tidegate.gateway.outbound.pool import Pool

CAP = 3


class Fake:
    """A connection that is a flag."""

    def __init__(self) -> None:
        self.is_pooled = False
        self.is_closed = False
        self.pool: Pool[Fake] | None = None

    def is_usable(self, now: float) -> bool:
        return not self.is_closed

    def close(self) -> None:
        self.is_closed = True
        if self.pool is not None:
            asyncio.get_running_loop().call_soon(self.pool.closed, self)

    def shut_down(self) -> None:
        self.close()


def pool_of(cap: int = CAP, max_waiting: int = 100) -> Pool[Fake]:
    async def dial(until: float) -> Fake:
        return Fake()

    return Pool("https://h:443", dial, cap=cap, max_waiting=max_waiting, idle_s=30.0)


@on_both_loops
async def test_the_newest_idle_connection_is_taken_and_dead_ones_are_dropped() -> None:
    pool = pool_of()
    first, second, third = [await pool.lease(inf) for _ in range(3)]
    for connection in (first, second, third):
        pool.give_back(connection)
    third.is_closed = True
    assert pool.take_idle(0.0) is second
    assert pool.take_idle(0.0) is first
    assert pool.take_idle(0.0) is None
    stats = pool.stats()
    assert (stats.active, stats.idle, stats.reused) == (2, 0, 2)


@on_both_loops
async def test_waiters_are_served_in_their_order_and_newcomers_do_not_overtake() -> None:
    pool = pool_of(cap=1)
    held = await pool.lease(inf)
    served: list[int] = []

    async def want(number: int) -> None:
        connection = pool.take_idle(0.0) or await pool.lease(inf)
        served.append(number)
        await asyncio.sleep(0)
        if number % 2:
            pool.give_back(connection)
        else:
            connection.close()
            pool.free_slot()

    async with asyncio.TaskGroup() as group:
        for number in range(10):
            group.create_task(want(number))
        await asyncio.sleep(0)
        assert pool.stats().waiting == 10
        pool.give_back(held)
        late = group.create_task(want(10))
        del late
    assert served == list(range(11))
    assert pool.stats().active == 0


@on_both_loops
async def test_a_wait_ends_at_the_connect_deadline() -> None:
    pool = pool_of(cap=1)
    held = await pool.lease(inf)
    with pytest.raises(PoolExhausted) as caught:
        await pool.lease(asyncio.get_running_loop().time() + 0.02)
    assert caught.value.timed_out
    assert not caught.value.request_bytes_written
    assert pool.stats().waiting == 0
    pool.give_back(held)
    assert pool.stats().active == 0


@on_both_loops
async def test_the_queue_is_bounded() -> None:
    pool = pool_of(cap=1, max_waiting=1)
    held = await pool.lease(inf)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(pool.lease(inf))
        await asyncio.sleep(0)
        with pytest.raises(PoolExhausted, match="too many"):
            await pool.lease(inf)
        pool.give_back(held)
    assert waiting.result() is held


@on_both_loops
async def test_a_grant_that_crosses_a_cancellation_goes_to_the_next() -> None:
    pool = pool_of(cap=1)
    held = await pool.lease(inf)
    async with asyncio.TaskGroup() as group:
        first = group.create_task(pool.lease(inf))
        second = group.create_task(pool.lease(inf))
        await asyncio.sleep(0)
        pool.give_back(held)
        first.cancel()
    assert first.cancelled()
    assert second.result() is held


@on_both_loops
async def test_a_connection_that_died_on_the_way_to_its_waiter_is_replaced() -> None:
    pool = pool_of(cap=1)
    held = await pool.lease(inf)
    async with asyncio.TaskGroup() as group:
        waiting = group.create_task(pool.lease(inf))
        await asyncio.sleep(0)
        pool.give_back(held)
        held.is_closed = True
    assert waiting.result() is not held
    assert pool.stats().active == 1


@on_both_loops
async def test_a_connection_that_is_dead_on_arrival_is_an_error_and_frees_its_slot() -> None:
    async def dial(until: float) -> Fake:
        fake = Fake()
        fake.is_closed = True
        return fake

    pool = Pool("https://h:443", dial, cap=1, max_waiting=1, idle_s=30.0)
    with pytest.raises(ConnectionLost) as caught:
        await pool.lease(inf)
    assert not caught.value.request_bytes_written
    assert pool.stats().active == 0


@on_both_loops
async def test_closing_turns_waiters_and_newcomers_away() -> None:
    pool = pool_of(cap=1)
    held = await pool.lease(inf)
    waiting = asyncio.ensure_future(pool.lease(inf))
    await asyncio.sleep(0)
    held.pool = pool
    await pool.close()
    with pytest.raises(ConnectFailed):
        await waiting
    with pytest.raises(ConnectFailed):
        await pool.lease(inf)
    pool.give_back(held)
    assert held.is_closed
    assert pool.stats().active == pool.stats().idle == 0


@on_both_loops
async def test_a_slot_granted_before_closing_is_not_dialed_in_after_it() -> None:
    pool = pool_of(cap=1)
    held = await pool.lease(inf)
    held.pool = pool
    waiting = asyncio.ensure_future(pool.lease(inf))
    await asyncio.sleep(0)
    pool.free_slot()
    held.close()
    await pool.close()
    with pytest.raises(ConnectFailed):
        await waiting
    assert pool.stats().active == 0


class PoolMachine(RuleBasedStateMachine):
    """Any order of asking, cancelling, dialing, failing, giving back and dying."""

    def __init__(self) -> None:
        super().__init__()
        self.loop = asyncio.new_event_loop()
        self.dials: list[asyncio.Future[Fake]] = []
        self.asking: list[asyncio.Task[Fake]] = []
        self.held: list[Fake] = []
        self.idle: list[Fake] = []

        async def dial(until: float) -> Fake:
            future: asyncio.Future[Fake] = self.loop.create_future()
            self.dials.append(future)
            try:
                return await future
            finally:
                self.dials.remove(future)

        self.pool: Pool[Fake] = Pool("https://h:443", dial, cap=CAP, max_waiting=100, idle_s=30.0)

    def settle(self) -> None:
        async def turns() -> None:
            for _ in range(6):
                await asyncio.sleep(0)

        self.loop.run_until_complete(turns())
        for task in [task for task in self.asking if task.done()]:
            self.asking.remove(task)
            if not task.cancelled() and task.exception() is None:
                self.held.append(task.result())

    @rule()
    def ask(self) -> None:
        taken = self.pool.take_idle(0.0)
        if taken is not None:
            self.held.append(taken)
        else:
            self.asking.append(self.loop.create_task(self.pool.lease(inf)))
            self.settle()

    @precondition(lambda self: self.asking)
    @rule(data=st.data(), after_release=st.booleans())
    def cancel(self, data: st.DataObject, after_release: bool) -> None:
        task = data.draw(st.sampled_from(self.asking))
        if after_release and self.held:
            self.pool.give_back(self.held.pop())
        task.cancel()
        self.settle()

    @precondition(lambda self: self.dials)
    @rule(data=st.data(), outcome=st.sampled_from(["open", "fail", "dead"]))
    def finish_dial(self, data: st.DataObject, outcome: str) -> None:
        future = data.draw(st.sampled_from(self.dials))
        if outcome == "fail":
            future.set_exception(ConnectFailed("no", "connect"))
        else:
            fake = Fake()
            fake.is_closed = outcome == "dead"
            future.set_result(fake)
        self.settle()

    @precondition(lambda self: self.held)
    @rule(data=st.data(), how=st.sampled_from(["good", "dead", "broken"]))
    def end_call(self, data: st.DataObject, how: str) -> None:
        connection = data.draw(st.sampled_from(self.held))
        self.held.remove(connection)
        if how == "broken":
            connection.close()
            self.pool.free_slot()
        else:
            self.pool.give_back(connection)
            self.idle.append(connection)
            if how == "dead":
                connection.close()
                self.pool.forget_idle(connection)
        self.settle()

    @precondition(lambda self: any(fake.is_pooled for fake in self.idle))
    @rule(data=st.data())
    def idle_dies(self, data: st.DataObject) -> None:
        connection = data.draw(st.sampled_from([fake for fake in self.idle if fake.is_pooled]))
        connection.close()
        self.pool.forget_idle(connection)
        self.settle()

    @invariant()
    def books_are_right(self) -> None:
        stats = self.pool.stats()
        assert stats.active == len(self.held) + len(self.dials)
        assert stats.active + stats.idle <= CAP
        assert stats.waiting == len(self.asking) - len(self.dials)
        assert stats.waiting == 0 or stats.active == CAP
        assert len({id(fake) for fake in self.held}) == len(self.held)

    def teardown(self) -> None:
        for task in list(self.asking):
            task.cancel()
        self.settle()
        for connection in self.held:
            self.pool.give_back(connection)
        assert self.pool.stats().active == 0
        self.loop.close()


TestPoolMachine = PoolMachine.TestCase
TestPoolMachine.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
