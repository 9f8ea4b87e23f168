"""Runs a reporting process and kills it at an arbitrary moment."""

import asyncio
import os
import sys
from collections.abc import Iterable
from pathlib import Path

TESTS = Path(__file__).parents[1]


async def run_and_kill(script: str, folder: Path, seed: int, reports: int, pause_s: float) -> dict[str, int]:
    """Run `tests/support/<script>`, kill -9 it some time after its n-th report, return the newest of each word.

    A report is a line `word number`. Everything the process wrote before it died counts.
    """
    process = await asyncio.create_subprocess_exec(
        sys.executable,
        TESTS / "support" / script,
        folder,
        str(seed),
        stdout=asyncio.subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(TESTS)},
    )
    assert process.stdout is not None
    lines = [await process.stdout.readline() for _ in range(reports)]
    await asyncio.sleep(pause_s)  # no condition to wait for: the moment of death is to be arbitrary
    process.kill()
    lines += [line async for line in process.stdout]
    await process.wait()
    assert all(lines[:reports]), f"{script} ended by itself"
    return _newest(lines)


def _newest(lines: Iterable[bytes]) -> dict[str, int]:
    newest: dict[str, int] = {}
    for line in lines:
        if line.endswith(b"\n"):  # else the kill cut it off
            word, number = line.split()
            newest[word.decode()] = int(number)
    return newest
