"""Huge pages for the heap: which ranges are asked for, and that nothing depends on getting them."""

import ctypes
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tidegate.runtime import huge_pages

MIB = 1024 * 1024


@pytest.mark.parametrize(
    ("line", "found"),
    [
        ("00400000-00c00000 rw-p 00000000 00:00 0                          [heap]", [(4 * MIB, 8 * MIB)]),
        ("00400000-00c00000 rw-p 00000000 00:00 0 ", [(4 * MIB, 8 * MIB)]),
        ("00401000-00bff000 rw-p 00000000 00:00 0", [(6 * MIB, 4 * MIB)]),
        ("00401000-007ff000 rw-p 00000000 00:00 0", []),
        ("00400000-00c00000 rw-p 00000000 00:00 0   [stack]", []),
        ("00400000-00c00000 rw-s 00000000 00:00 0", []),
        ("00400000-00c00000 r-xp 00000000 00:00 0", []),
        ("00400000-00c00000 rw-p 00000000 fd:01 1234   /usr/lib/libx.so", []),
        ("00400000-00c00000 rw-s 00000000 00:01 1234   /dev/shm/x", []),
        ("no mapping", []),
    ],
)
def test_only_whole_pages_of_heap_like_memory_are_asked_for(line: str, found: list[tuple[int, int]]) -> None:
    assert list(huge_pages.ranges_of([line])) == found


def test_a_process_that_asks_goes_on_with_its_memory_as_it_was() -> None:
    code = (
        "from pathlib import Path\n"
        "kept=[bytes([n % 251])*1000 for n in range(30_000)]\n"
        "from tidegate.runtime.huge_pages import use_huge_pages\n"
        "taken=use_huge_pages()\n"
        "assert kept==[bytes([n % 251])*1000 for n in range(30_000)]\n"
        "print(taken, Path('/proc/self/smaps_rollup').read_text())\n"
    )
    said = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    taken = int(said.split()[0])
    held = re.search(r"AnonHugePages:\s+(\d+) kB", said)
    assert held is not None
    assert int(held[1]) * 1024 >= taken


@pytest.mark.parametrize("missing", ["madvise", "proc"])
def test_where_the_system_knows_no_huge_pages_nothing_happens(
    monkeypatch: pytest.MonkeyPatch, missing: str
) -> None:
    if missing == "madvise":
        monkeypatch.setattr(ctypes, "CDLL", lambda name: object())
    else:
        monkeypatch.setattr(Path, "read_text", _refuse)
    assert huge_pages.use_huge_pages() == 0


def test_a_kernel_that_refuses_is_no_error(monkeypatch: pytest.MonkeyPatch) -> None:
    class Refuses:
        @staticmethod
        def madvise(start: int, size: int, advice: int) -> int:
            return -1

    monkeypatch.setattr(ctypes, "CDLL", lambda name: Refuses)
    assert huge_pages.use_huge_pages() == 0


def _refuse(path: Path) -> str:
    raise FileNotFoundError(path)
