"""An asyncio loop whose clock jumps to the next timer instead of waiting: real deadlines in no time."""

import asyncio
import functools
import selectors
from collections.abc import Callable, Coroutine
from typing import Any


class _JumpingSelector(selectors.SelectSelector):
    now_s = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        ready = super().select(0)
        if not ready and timeout is None:
            raise RuntimeError("deadlock: nothing is ready and no timer is set")
        if not ready and timeout is not None:
            self.now_s += max(timeout, 0.0)
        return ready


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """No real sockets or threads inside."""

    def __init__(self) -> None:
        self._jumping = _JumpingSelector()
        super().__init__(self._jumping)

    def time(self) -> float:
        return self._jumping.now_s


def in_virtual_time(test: Callable[..., Coroutine[Any, Any, None]]) -> Callable[..., None]:
    """Run an async test on a `VirtualTimeLoop`."""

    @functools.wraps(test)
    def run(**arguments: Any) -> None:
        with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
            runner.run(test(**arguments))

    return run
