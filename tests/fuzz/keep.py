"""Keeps what broke a parser as a seed, made as small as it can be: `python tests/fuzz/keep.py NAME FILE`.

Run it before the parser is mended: only while the input still breaks it can it be made smaller.
"""

from __future__ import annotations

import hashlib
import sys
from collections.abc import Callable
from pathlib import Path

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

from support.fuzz_targets import TARGETS  # noqa: E402


def breaks(promise: Callable[[bytes], None], data: bytes) -> type[Exception] | None:
    """What kind of error an input raises; None when the promise holds."""
    try:
        promise(data)
    except Exception as error:
        return type(error)
    return None


def smallest(promise: Callable[[bytes], None], data: bytes) -> bytes:
    """A part of `data` that raises the same kind of error, and of which no byte can be left out.

    Raises ValueError when it breaks nothing.
    """
    kind = breaks(promise, data)
    if kind is None:
        raise ValueError("this input breaks no promise")
    size = max(len(data) // 2, 1)
    while data:
        at, shrunk = 0, False
        while at < len(data):
            without = data[:at] + data[at + size :]
            if breaks(promise, without) is kind:
                data, shrunk = without, True
            else:
                at += size
        if size == 1 and not shrunk:
            break
        size = max(size // 2, 1)
    return data


def main(name: str, file: Path, corpus: Path = HERE / "corpus") -> Path:
    """Writes the seed under a name of its own and returns where."""
    data = smallest(TARGETS[name][0], file.read_bytes())
    place = corpus / name / f"broke-{hashlib.sha256(data).hexdigest()[:12]}"
    place.parent.mkdir(parents=True, exist_ok=True)
    place.write_bytes(data)
    return place


if __name__ == "__main__":
    if len(sys.argv) != 3 or sys.argv[1] not in TARGETS:
        sys.exit(f"usage: keep.py {'|'.join(TARGETS)} FILE")
    try:
        print(main(sys.argv[1], Path(sys.argv[2])))
    except ValueError as error:
        sys.exit(str(error))
