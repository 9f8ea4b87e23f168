"""Fuzzes one parser, guided by what its code has not yet done: `python tests/fuzz/run_target.py NAME SECONDS FOLDER`."""

from __future__ import annotations

import importlib
import json
import os
import sys
from pathlib import Path
from random import Random
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))

atheris: Any = importlib.import_module("atheris")  # only where it has a wheel

with atheris.instrument_imports(include=["tidegate.gateway", "tidegate.runtime.pricebook"]):
    from support.fuzz_targets import TARGETS

from support.dialect_mutations import mutated  # noqa: E402

HANG_S = 10
INPUT_BYTES = 16_384


def mutate_json(text: bytes, random: Random) -> bytes | None:
    """One odd value in a JSON text; None when it is none."""
    try:
        return json.dumps(mutated(json.loads(text), random)).encode()
    except (ValueError, RecursionError):
        return None


def mutate_stream(text: bytes, random: Random) -> bytes | None:
    """One odd value in one event of a stream, or events left out, doubled, or in another order."""
    events = text.split(b"\n\n")
    at = random.randrange(len(events))
    if random.random() < 0.3:
        other = random.randrange(len(events))
        events[at : at + 1] = random.choice([[], [events[at]] * 2, [events[other]]])
        return b"\n\n".join(events)
    before, mark, data = events[at].partition(b"data: ")
    made = mutate_json(data, random) if mark else None
    if made is None:
        return None
    events[at] = before + mark + made
    return b"\n\n".join(events)


def main(name: str, seconds: int, folder: Path) -> None:
    """Runs until the time is over or a promise is broken; the input that broke it is kept in the folder."""
    promise, kind, choosing = TARGETS[name]
    kept = folder / name
    kept.mkdir(parents=True, exist_ok=True)
    grammar: Any = {"json": mutate_json, "stream": mutate_stream}.get(kind)

    def mutate(data: bytes, most: int, seed: int) -> bytes:
        random = Random(seed)
        made = None
        if grammar is not None and random.random() < 0.6:
            made = grammar(data[choosing:], random)
        if made is None or choosing + len(made) > most:
            return bytes(atheris.Mutate(data, most))
        front = bytes(random.randrange(256) if random.random() < 0.2 else each for each in data[:choosing])
        return front + made

    options = [
        f"-max_total_time={seconds}",
        f"-timeout={HANG_S}",
        f"-max_len={INPUT_BYTES}",
        f"-artifact_prefix={folder}/{name}-broken-",
        "-print_final_stats=1",
        "-verbosity=0",
    ]
    places = [str(kept), str(HERE / "corpus" / name)]
    atheris.Setup([sys.argv[0], *options, *places], promise, custom_mutator=mutate)
    atheris.Fuzz()


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), Path(sys.argv[3]))
    os._exit(0)
