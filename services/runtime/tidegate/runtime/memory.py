"""How much memory this process may use: the machine's, or less where a container or a limit says so."""

import contextlib
import os
import resource
from collections.abc import Iterator
from pathlib import Path, PurePosixPath

_GROUPS = Path("proc/self/cgroup")
_MOUNT = Path("sys/fs/cgroup")


def allowed_bytes(root: Path = Path("/")) -> int:
    """The least of the machine's memory, RLIMIT_AS and the limits of the process's control group and of all those
    around it: each holds for everything inside."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    for path in _limit_files(root):
        # Missing, or the word "max": no limit here.
        with contextlib.suppress(OSError, ValueError):
            limits.append(int((root / path).read_text()))
    return min(limits)


def _limit_files(root: Path) -> Iterator[Path]:
    """Where limits may stand, from the process's own group up to the root that it sees; groups of version 1 and 2.

    In a container the named group may be the host's name for what is the root there: such a folder is missing.
    """
    named = ["0::/", "0:memory:/"]
    with contextlib.suppress(OSError):
        named += (root / _GROUPS).read_text().splitlines()
    for line in named:
        _, controllers, group = line.split(":", 2)
        path = PurePosixPath(group.strip("/"))
        if ".." in path.parts:  # outside of what the process sees
            continue
        for folder in (path, *path.parents):
            if not controllers:
                yield _MOUNT / folder / "memory.max"
            elif "memory" in controllers.split(","):
                yield _MOUNT / "memory" / folder / "memory.limit_in_bytes"


def held_body_bytes(allowed: int, workers: int, max_body_bytes: int) -> int:
    """What one of `workers` may hold of bodies: its part of a quarter, as a translated body is there twice; one
    body of the largest size always fits."""
    return max(max_body_bytes, allowed // 4 // workers)
