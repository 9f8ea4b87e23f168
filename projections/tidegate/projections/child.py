"""A process that answers one question and ends: forked, bounded by the kernel, killed when its time is over."""

import gc
import os
import resource
import signal
import sys
from collections.abc import Callable, Iterable
from contextlib import ExitStack, suppress
from pathlib import Path
from threading import Lock
from typing import NoReturn

import msgspec

_READ_BYTES = 1 << 16
_LAST_WORDS_S = 1.0
"""How much longer than its time a child lives when nobody is left to kill it."""


class Bounds(msgspec.Struct, frozen=True, kw_only=True):
    """What the kernel holds a child to."""

    seconds: float
    memory_bytes: int
    """Address space beyond what it begins with; a system without that limit (macOS) does not hold it."""
    answer_bytes: int


class Child:
    """One forked process, from before its birth to after its end. `kill` is for any thread at any time."""

    def __init__(self) -> None:
        self._lock = Lock()
        self._pid: int | None = None
        self.killed = False

    def ask(
        self, work: Callable[[], bytes], bounds: Bounds, keep: tuple[Path, ...], alone: Iterable[Lock]
    ) -> bytes:
        """What `work` returns in a fork of this process; empty when the fork was killed or came to grief.

        It holds of this process's open files only `keep`: locks and sockets of ours must not outlive us in it.
        `alone` are held while forking: nothing may be inside a database then.
        """
        with ExitStack() as held:
            for lock in alone:
                held.enter_context(lock)
            out = self._fork(work, bounds, keep)
        try:
            return _read(out, bounds.answer_bytes) if out is not None else b""
        finally:
            if out is not None:
                os.close(out)
            self._reap()

    def kill(self) -> None:
        """End it now; before its birth: let it not be born."""
        with self._lock:
            self.killed = True
            if self._pid is not None:
                os.kill(self._pid, signal.SIGKILL)

    def _fork(self, work: Callable[[], bytes], bounds: Bounds, keep: tuple[Path, ...]) -> int | None:
        with self._lock:
            if self.killed:
                return None
            out, its_end = os.pipe()
            self._pid = os.fork()
            if self._pid == 0:
                _live(work, its_end, bounds, keep)
            os.close(its_end)
            return out

    def _reap(self) -> None:
        # Whatever it still does after its answer, or after too long an answer, nobody wants.
        with self._lock:
            pid, self._pid = self._pid, None
            if pid is not None:
                os.kill(pid, signal.SIGKILL)
                os.waitpid(pid, 0)


def _read(pipe: int, most_bytes: int) -> bytes:
    chunks: list[bytes] = []
    size = 0
    while size <= most_bytes and (chunk := os.read(pipe, _READ_BYTES)):
        chunks.append(chunk)
        size += len(chunk)
    return b"".join(chunks) if size <= most_bytes else b""


def _live(work: Callable[[], bytes], out: int, bounds: Bounds, keep: tuple[Path, ...]) -> NoReturn:
    """The child's whole life. No destructor and no handler of the parent's may run in it."""
    try:
        gc.disable()
        _own_signals(bounds.seconds + _LAST_WORDS_S)
        _close_others(out, keep)
        _hold_to(bounds.memory_bytes)
        answer = work()
        while answer:
            answer = answer[os.write(out, answer) :]
    finally:
        os._exit(0)


def _own_signals(seconds: float) -> None:
    signal.set_wakeup_fd(-1)
    for number in (signal.SIGTERM, signal.SIGINT, signal.SIGALRM, signal.SIGPIPE):
        signal.signal(number, signal.SIG_DFL)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    signal.setitimer(signal.ITIMER_REAL, seconds)


def _close_others(out: int, keep: tuple[Path, ...]) -> None:
    wanted = {(found.st_dev, found.st_ino) for path in keep if path.exists() for found in [path.stat()]}
    for name in list(Path("/proc/self/fd" if sys.platform == "linux" else "/dev/fd").iterdir()):
        descriptor = int(name.name)
        with suppress(OSError):  # the one that listed them is closed already
            found = os.fstat(descriptor)
            if descriptor != out and (found.st_dev, found.st_ino) not in wanted:
                os.close(descriptor)
    for _ in range(3):
        os.open(os.devnull, os.O_RDWR)


def _hold_to(memory_bytes: int) -> None:
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    with suppress(OSError):  # no Linux
        pages = int(Path("/proc/self/statm").read_bytes().split()[0])
        most = pages * resource.getpagesize() + memory_bytes
        resource.setrlimit(resource.RLIMIT_AS, (most, most))
        # If memory runs out all the same, the kernel takes this process and not its parent.
        Path("/proc/self/oom_score_adj").write_text("1000")
