"""Huge pages for what start-up made: a request that follows a pause finds less of its memory by walking tables."""

import ctypes
import re
from collections.abc import Iterable, Iterator
from pathlib import Path

HUGE_BYTES = 2 * 1024 * 1024
"""Of a huge page on x86-64, and on ARM with pages of 4 KiB; elsewhere the kernel refuses the ranges or rounds."""

_HUGEPAGE, _COLLAPSE = 14, 25
"""MADV_HUGEPAGE and MADV_COLLAPSE of Linux; the second is known to 6.1 and later."""

_MAPPING = re.compile(r"([0-9a-f]+)-([0-9a-f]+) rw-p \S+ \S+ 0\s*(?:\[heap\])?\s*$")


def use_huge_pages() -> int:
    """Ask the kernel to hold this process's heap in huge pages, at once; returns how many bytes it took so.

    Only whole huge pages within private, writable memory of no file are asked for, so little is added to what is
    resident. Where the kernel knows none, or has none free, nothing changes: the answer is 0, never an error.
    """
    try:
        maps = Path("/proc/self/maps").read_text().splitlines()
        advise = ctypes.CDLL(None).madvise
    except (OSError, AttributeError):
        return 0
    advise.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)
    taken = 0
    for start, size in ranges_of(maps):
        if advise(start, size, _HUGEPAGE) == 0 and advise(start, size, _COLLAPSE) == 0:
            taken += size
    return taken


def ranges_of(maps: Iterable[str]) -> Iterator[tuple[int, int]]:
    """Address and size of the runs of whole huge pages in heap-like mappings, lines of `/proc/self/maps`."""
    for line in maps:
        found = _MAPPING.match(line)
        if found is None:
            continue
        start = -(-int(found[1], 16) // HUGE_BYTES) * HUGE_BYTES
        end = int(found[2], 16) // HUGE_BYTES * HUGE_BYTES
        if end > start:
            yield start, end - start
