"""Child processes of a demo: started, awaited until ready, ended in order; their output goes to files."""

import asyncio
import contextlib
import os
import sys
from collections.abc import AsyncGenerator, Mapping, Sequence
from pathlib import Path
from types import TracebackType
from typing import Self

from tidegate.events.errors import Broken
from tidegate.runtime.waiting import NotInTime, in_time

POLL_S = 0.02
STOP_GRACE_S = 60.0
_TAIL_LINES = 12


class ChildFailed(Broken):
    """A child ended by itself or did not do its work in time; the message has the end of what it said."""

    code = "child_failed"


class Child:
    """`python -m <module> <arguments>` with its output in `said`; as a context it is ended at the end.

    It is given the reading end of a pipe of ours as `--parent-fd`. That closes when we are killed: then it ends
    itself.
    """

    def __init__(
        self, name: str, module: str, arguments: Sequence[str], env: Mapping[str, str], said: Path
    ) -> None:
        self.name = name
        self._command = (sys.executable, "-m", module, *arguments)
        self._pipe: int | None = None
        self._env = dict(env)
        self._said = said
        self._process: asyncio.subprocess.Process | None = None

    async def __aenter__(self) -> Self:
        read_fd, self._pipe = os.pipe()
        try:
            with self._said.open("wb") as file:
                self._process = await asyncio.create_subprocess_exec(
                    *self._command,
                    "--parent-fd",
                    str(read_fd),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=file,
                    stderr=file,
                    env=self._env,
                    pass_fds=(read_fd,),
                    # A Ctrl-C at the terminal is for us: children are ended in order, not all at once.
                    start_new_session=True,
                )
        finally:
            os.close(read_fd)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.stop()

    async def wait_file(self, path: Path, deadline_s: float) -> str:
        """The text of a file that the child writes whole once it is ready. Raises ChildFailed."""
        async with self.within(deadline_s, f"{path.name} did not appear"):
            while (text := _text(path)) is None:
                self.check()
                await asyncio.sleep(POLL_S)
        return text

    @contextlib.asynccontextmanager
    async def within(self, deadline_s: float, missing: str) -> AsyncGenerator[None]:
        """A block that must end in time. Raises ChildFailed with what is `missing`."""
        try:
            async with in_time(deadline_s, lambda: missing):
                yield
        except NotInTime as error:
            raise self.failure(str(error)) from error

    def check(self) -> None:
        """Raise ChildFailed when the child has ended."""
        process = self._process
        if process is not None and process.returncode is not None:
            raise self.failure(f"ended with exit code {process.returncode}")

    def failure(self, what: str) -> ChildFailed:
        """What went wrong, and the last lines the child said."""
        lines = self._said.read_text(encoding="utf-8", errors="replace").splitlines()[-_TAIL_LINES:]
        return ChildFailed("\n".join([f"{self.name}: {what}; the end of {self._said}:", *lines]))

    async def stop(self) -> None:
        """TERM, wait for a clean end, then KILL."""
        process = self._process
        if process is not None and process.returncode is None:
            await self._end(process)
        if self._pipe is not None:
            os.close(self._pipe)
            self._pipe = None

    async def _end(self, process: asyncio.subprocess.Process) -> None:
        process.terminate()
        try:
            async with asyncio.timeout(STOP_GRACE_S):
                await process.wait()
        except TimeoutError:
            process.kill()
            await process.wait()


def _text(path: Path) -> str | None:
    try:
        return path.read_text(encoding="utf-8") or None
    except FileNotFoundError:
        return None
