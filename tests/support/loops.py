"""Runs an async test on asyncio's and on uvloop's loop, and fails it when a callback raised unseen."""

import asyncio
import functools
import gc
import inspect
from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import uvloop

TEST_LIMIT_S = 30.0

AsyncTest = Callable[..., Awaitable[None]]


def on_both_loops(test: AsyncTest) -> Callable[..., None]:
    """Decorate a coroutine function; fixtures pass through."""

    def run(loop_factory: Callable[[], asyncio.AbstractEventLoop], **fixtures: Any) -> None:
        unseen: list[dict[str, Any]] = []

        async def limited() -> None:
            asyncio.get_running_loop().set_exception_handler(lambda _, context: unseen.append(context))
            async with asyncio.timeout(TEST_LIMIT_S):
                await test(**fixtures)

        with asyncio.Runner(loop_factory=loop_factory) as runner:
            runner.run(limited())
        gc.collect()  # a leaked socket or a never retrieved exception speaks up only when collected
        assert not unseen, unseen

    functools.update_wrapper(run, test)
    del run.__wrapped__  # type: ignore[attr-defined]
    inner = inspect.signature(test)
    factory = inspect.Parameter("loop_factory", inspect.Parameter.POSITIONAL_OR_KEYWORD)
    run.__signature__ = inner.replace(parameters=[factory, *inner.parameters.values()])  # type: ignore[attr-defined]
    factories = [asyncio.new_event_loop, uvloop.new_event_loop]
    return pytest.mark.parametrize("loop_factory", factories, ids=["asyncio", "uvloop"])(run)
