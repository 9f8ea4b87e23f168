"""The mark that two processes share: a reader sees a mark that was written, never a part of one."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

from tidegate.events.journal.sync import SyncedMark

WRITER = """
import sys
from pathlib import Path
from tidegate.events.journal.sync import SyncedMark
mark, low, high = SyncedMark(Path(sys.argv[1])), 0x01FF_FFFF, 0x0200_0000
print("writes", flush=True)
while True:
    for _ in range(1_000):
        mark.write(low)
        mark.write(high)
"""


def test_a_reader_in_another_process_never_sees_half_a_mark(tmp_path: Path) -> None:
    low, high = 0x01FF_FFFF, 0x0200_0000  # every byte changes, so a part of either would be a third number
    mark = SyncedMark(tmp_path)
    mark.write(low)
    writer = subprocess.Popen([sys.executable, "-c", WRITER, tmp_path], stdout=subprocess.PIPE)
    try:
        assert writer.stdout is not None
        assert writer.stdout.readline() == b"writes\n"
        seen: set[int] = set()
        while len(seen) < 2:  # however long the writer has no processor
            seen |= {mark.read() for _ in range(300_000)}
    finally:
        writer.kill()
        writer.communicate()
    assert seen == {low, high}
    mark.close()


def test_a_mark_outlives_who_wrote_it(tmp_path: Path) -> None:
    first = SyncedMark(tmp_path)
    assert first.read() == 0
    first.write(1 << 40)
    first.close()
    again = SyncedMark(tmp_path)
    assert again.read() == 1 << 40
    again.close()
