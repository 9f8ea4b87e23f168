"""Waiting for a position."""

import asyncio

import pytest

from tidegate.events.log.port import TopicPartition
from tidegate.projections.errors import NotCaughtUp
from tidegate.projections.progress import Progress

A, B = TopicPartition("t", 0), TopicPartition("t", 1)


async def test_a_position_that_is_reached_is_no_wait() -> None:
    await Progress({A: 5, B: 0}).wait({A: 5}, timeout_s=0.0)


async def test_a_wait_ends_when_all_wanted_positions_are_committed() -> None:
    progress = Progress({A: 0, B: 0})
    waiting = asyncio.ensure_future(progress.wait({A: 3, B: 1}, timeout_s=20))
    for step in ({A: 2}, {A: 3}):
        progress.advance(step)
        await asyncio.sleep(0)
        await asyncio.sleep(0)
        assert not waiting.done()
    progress.advance({B: 9})
    await waiting


async def test_a_wait_that_is_too_long_says_how_far_it_is() -> None:
    with pytest.raises(NotCaughtUp, match=r"t\[1\] is at 2, not 7") as caught:
        await Progress({A: 5, B: 2}).wait({A: 5, B: 7}, timeout_s=0.01)
    assert caught.value.retry_after_s == 1.0


async def test_a_partition_that_is_not_folded_is_never_reached() -> None:
    with pytest.raises(NotCaughtUp, match="is at 0, not 1"):
        await Progress({A: 5}).wait({TopicPartition("other", 0): 1}, timeout_s=0.01)
