"""A role's process: one event loop, our own signals, and an end when the parent is gone."""

import asyncio
import gc
import os
import signal
from collections.abc import Awaitable, Callable, Coroutine
from typing import Any, NoReturn

import uvloop

from tidegate.runtime.huge_pages import use_huge_pages
from tidegate.runtime.telemetry import facts_of, logger

GC_ALLOCATIONS = 50_000
BEHIND_GATEWAYS = 5
CUT_AFTER_S = 15.0
PART_RETRY_S = 5.0
LAST_WORDS_S = 5.0
"""What a role that is cut has left to close its files and connections."""

Role = Callable[["Stopping"], Awaitable[None]]


class Stopping:
    """The wish to stop. A first TERM or INT, a HUP or the parent's end sets it; a second TERM or INT exits at once."""

    def __init__(self) -> None:
        self.event = asyncio.Event()
        self.orphaned = asyncio.Event()
        """Set besides when it was the parent's end: whoever starts us anew waits for what we hold."""

    def __call__(self) -> bool:
        """True once the process should end."""
        return self.event.is_set()

    def ask(self) -> None:
        """Ask for the end; asked twice, the process exits within a second."""
        if self.event.is_set():
            _exit_now()
        self.event.set()

    def hung_up(self) -> None:
        """The terminal is gone, or a service manager says so beside TERM: told twice, it is still one wish."""
        logger().warning("hung up: this process ends in order", state="draining")
        self.event.set()

    def parent_gone(self) -> None:
        """The parent's pipe closed."""
        self.orphaned.set()
        self.event.set()


def beside(role: Role, *others: Callable[[], Awaitable[None]]) -> Role:
    """A role with others of its process, which run until it ends and are then cancelled."""

    async def run(stopping: Stopping) -> None:
        async with asyncio.TaskGroup() as tasks:
            running = [tasks.create_task(_of(other())) for other in others]
            try:
                await role(stopping)
            finally:
                for task in running:
                    task.cancel()

    return run


async def kept_up(name: str, part: Callable[[], Awaitable[None]]) -> None:
    """Run a part of a role until cancelled or done. An error of it is told and it is begun anew a while later:
    what a role does besides, such as its numbers, must not end what it is there for."""
    while True:
        try:
            return await part()
        except Exception as error:  # noqa: BLE001 - told, and its neighbours go on
            logger().error(
                "a part of this role stands still", state=name, backoff_s=PART_RETRY_S, **facts_of(error)
            )
            await asyncio.sleep(PART_RETRY_S)


async def _of(work: Awaitable[None]) -> None:
    await work


def _exit_now() -> NoReturn:
    os._exit(1)


def run_role(
    role: Role, parent_fd: int | None = None, *, behind: int = 0, cut_after_s: float | None = None
) -> None:
    """Run a role until it ends. `behind`: how far it steps back for the gateways on a busy machine (nice).

    `cut_after_s`: a role that has not ended so long after it was told to is cancelled, and then ended by
    force: what it waits for may never come. Only for roles that resume from what they have committed.
    """
    if behind:
        os.nice(behind)
    # What start-up made lives as long as the process; and requests make no cycles worth a look that often.
    gc.freeze()
    use_huge_pages()
    gc.set_threshold(GC_ALLOCATIONS, 50, 100)
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(role, parent_fd, cut_after_s))


async def _run(role: Role, parent_fd: int | None, cut_after_s: float | None) -> None:
    loop = asyncio.get_running_loop()
    stopping = Stopping()
    for number in (signal.SIGTERM, signal.SIGINT):
        loop.add_signal_handler(number, stopping.ask)
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:  # under nohup it is, and stays so
        loop.add_signal_handler(signal.SIGHUP, stopping.hung_up)
    if parent_fd is not None:
        loop.add_reader(parent_fd, _on_parent, loop, parent_fd, stopping)
    running = asyncio.ensure_future(role(stopping))
    cutting = None if cut_after_s is None else asyncio.ensure_future(_cut(running, stopping, cut_after_s))
    try:
        await running
    except asyncio.CancelledError:
        if cutting is None or not stopping():
            raise
        _exit_now()
    finally:
        if cutting is not None:
            cutting.cancel()


async def _cut(running: "asyncio.Future[None]", stopping: Stopping, after_s: float) -> None:
    await stopping.event.wait()
    await asyncio.sleep(after_s)
    logger().error("role did not end in time: it is cut", duration_ms=int(after_s * 1_000))
    running.cancel()
    await asyncio.sleep(LAST_WORDS_S)
    _exit_now()


async def until_parent_gone(work: Coroutine[Any, Any, object], parent_fd: int | None) -> None:
    """Run `work`; it is cancelled when the parent's pipe closes."""
    if parent_fd is None:
        await work
        return
    loop, stopping = asyncio.get_running_loop(), Stopping()
    loop.add_reader(parent_fd, _on_parent, loop, parent_fd, stopping)
    running = asyncio.ensure_future(work)
    gone = asyncio.ensure_future(stopping.event.wait())
    try:
        await asyncio.wait((running, gone), return_when=asyncio.FIRST_COMPLETED)
        if running.done():
            running.result()
    finally:
        loop.remove_reader(parent_fd)
        for task in (running, gone):
            task.cancel()
        await asyncio.gather(running, gone, return_exceptions=True)


def _on_parent(loop: asyncio.AbstractEventLoop, parent_fd: int, stopping: Stopping) -> None:
    # Nothing is ever written to the pipe: readable means that its other end was closed.
    loop.remove_reader(parent_fd)
    stopping.parent_gone()
