"""A role's process: one event loop, our own signals, and an end when the parent is gone."""

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable
from typing import NoReturn

import uvloop

GC_ALLOCATIONS = 50_000
BEHIND_GATEWAYS = 5

Role = Callable[["Stopping"], Awaitable[None]]


class Stopping:
    """The wish to stop. A first TERM or INT, or the parent's end, sets it; a second signal exits at once."""

    def __init__(self) -> None:
        self.event = asyncio.Event()

    def __call__(self) -> bool:
        """True once the process should end."""
        return self.event.is_set()

    def ask(self) -> None:
        """Ask for the end; asked twice, the process exits within a second."""
        if self.event.is_set():
            _exit_now()
        self.event.set()

    def parent_gone(self) -> None:
        """The parent's pipe closed."""
        self.event.set()


def _exit_now() -> NoReturn:
    os._exit(1)


def run_role(role: Role, parent_fd: int | None = None, *, behind: int = 0) -> None:
    """Run a role until it ends. `behind`: how far it steps back for the gateways on a busy machine (nice)."""
    if behind:
        os.nice(behind)
    # What start-up made lives as long as the process; and requests make no cycles worth a look that often.
    gc.freeze()
    gc.set_threshold(GC_ALLOCATIONS, 50, 100)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(role, parent_fd))


async def _run(role: Role, parent_fd: int | None) -> None:
    loop = asyncio.get_running_loop()
    stopping = Stopping()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.ask)
    if parent_fd is not None:
        loop.add_reader(parent_fd, _on_parent, loop, parent_fd, stopping)
    await role(stopping)


def _on_parent(loop: asyncio.AbstractEventLoop, parent_fd: int, stopping: Stopping) -> None:
    # Nothing is ever written to the pipe: readable means that its other end was closed.
    loop.remove_reader(parent_fd)
    stopping.parent_gone()
