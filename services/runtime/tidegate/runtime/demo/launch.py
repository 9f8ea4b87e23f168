"""From the command's options to a finished demo: its folder, its log, its event loop, its signals."""

import asyncio
import contextlib
import os
import signal
import tempfile
from collections.abc import AsyncGenerator, Generator
from datetime import UTC, datetime
from pathlib import Path
from typing import NamedTuple

import uvloop

from tidegate.events.clock import Clock
from tidegate.events.errors import Refused
from tidegate.runtime.demo.config import LogChoice
from tidegate.runtime.demo.run import Options, Progress, Result, run
from tidegate.runtime.demo.workload import Workload

DEFAULT_FOLDER = Path("tidegate-data") / "demo"
MAX_SOCKET_PATH_BYTES = 100


class Launch(NamedTuple):
    """The options of one demo; `kafka` asks for that log, `bootstrap` names one that runs already."""

    workload: Workload
    speed: float
    seed: int
    folder: Path
    kafka: bool = False
    bootstrap: str | None = None


def new_folder(given: Path | None, clock: Clock) -> Path:
    """Make the folder of this run; gives its absolute path. By default it is named by the time and lies below
    the working folder, or, where that has so long a path that sockets below it would not fit, among the
    temporary ones. Raises Refused when it exists, is too long a path, or cannot be made.
    """
    if given is not None:
        folder = given.absolute()
        if not _fits(folder):
            raise Refused(
                f"{folder} is too long a path: sockets below it would not fit; give a shorter --folder"
            )
    else:
        name = f"{datetime.fromtimestamp(clock.wall_ns() / 1e9, UTC):%Y%m%d-%H%M%S}"
        folder = (DEFAULT_FOLDER / name).absolute()
        if not _fits(folder):
            folder = Path(tempfile.gettempdir()) / f"tidegate-demo-{name}"
    try:
        folder.mkdir(parents=True)
    except FileExistsError as error:
        raise Refused(f"{folder} exists: a demo needs a folder of its own") from error
    except OSError as error:
        raise Refused(f"{folder} cannot be made: {error.strerror}") from error
    return folder


def _fits(folder: Path) -> bool:
    return len(os.fsencode(folder / "data" / "run" / "projector.sock")) <= MAX_SOCKET_PATH_BYTES


def launch(what: Launch, progress: Progress) -> Result:
    """Run it; whatever was started has ended when this returns or raises. Raises TidegateError,
    KeyboardInterrupt after Ctrl-C or TERM."""
    try:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(_run(what, progress))
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


async def _run(what: Launch, progress: Progress) -> Result:
    with _ended_by_term():
        async with _log(what, progress) as log:
            return await run(Options(what.workload, what.speed, what.seed, what.folder, log), progress)


@contextlib.contextmanager
def _ended_by_term() -> Generator[None]:
    """TERM ends the demo as Ctrl-C does: in order, children first."""
    loop, task = asyncio.get_running_loop(), asyncio.current_task()
    if task is not None:
        loop.add_signal_handler(signal.SIGTERM, task.cancel)
    try:
        yield
    finally:
        loop.remove_signal_handler(signal.SIGTERM)


@contextlib.asynccontextmanager
async def _log(what: Launch, progress: Progress) -> AsyncGenerator[LogChoice]:
    if not what.kafka:
        yield LogChoice()
        return
    from tidegate.runtime.demo.kafka import kafka_log

    async with kafka_log(what.bootstrap, what.folder / "kafka", progress.say) as choice:
        yield choice
