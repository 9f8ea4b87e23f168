"""Run an async test on both event loops we support: asyncio's own and uvloop."""

import asyncio
import functools
import inspect
from collections.abc import Callable, Coroutine
from typing import Any

import pytest
import uvloop

LOOPS = {"asyncio": asyncio.SelectorEventLoop, "uvloop": uvloop.new_event_loop}


def on_both_loops(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Turn `async def test_…` into two tests, one per loop."""

    @functools.wraps(test)
    def run(loop_name: str, **arguments: Any) -> None:
        with asyncio.Runner(loop_factory=LOOPS[loop_name]) as runner:
            runner.run(test(**arguments))

    signature = inspect.signature(test)
    extra = inspect.Parameter("loop_name", inspect.Parameter.KEYWORD_ONLY)
    run.__signature__ = signature.replace(parameters=[*signature.parameters.values(), extra])  # type: ignore[attr-defined]
    del run.__wrapped__  # type: ignore[attr-defined]
    return pytest.mark.parametrize("loop_name", LOOPS)(run)
