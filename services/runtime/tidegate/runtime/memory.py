"""How much memory this process may use: the machine's, or less where a container or a limit says so."""

import contextlib
import os
import resource
from pathlib import Path

_CGROUP_FILES = ("sys/fs/cgroup/memory.max", "sys/fs/cgroup/memory/memory.limit_in_bytes")
"""Version 2 and version 1, as a container sees its own group."""


def allowed_bytes(root: Path = Path("/")) -> int:
    """The least of the machine's memory, the container's limit and RLIMIT_AS."""
    limits = [os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")]
    soft, _ = resource.getrlimit(resource.RLIMIT_AS)
    if soft != resource.RLIM_INFINITY:
        limits.append(soft)
    for name in _CGROUP_FILES:
        # Missing, or the word "max": no limit here.
        with contextlib.suppress(OSError, ValueError):
            limits.append(int((root / name).read_text()))
    return min(limits)


def held_body_bytes(allowed: int, workers: int, max_body_bytes: int) -> int:
    """What one of `workers` may hold of bodies: its part of a quarter, as a translated body is there twice; one
    body of the largest size always fits."""
    return max(max_body_bytes, allowed // 4 // workers)
