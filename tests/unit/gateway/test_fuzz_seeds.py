"""The kept inputs of the fuzzer hold every promise; what it once broke stays mended."""

from __future__ import annotations

from pathlib import Path

import pytest

from support.fuzz_targets import TARGETS

CORPUS = Path(__file__).resolve().parents[2] / "fuzz" / "corpus"


@pytest.mark.parametrize("name", TARGETS)
def test_every_kept_input_holds_the_promises_of_its_parser(name: str) -> None:
    kept = sorted((CORPUS / name).iterdir())
    assert len(kept) >= 3
    for path in kept:
        TARGETS[name][0](path.read_bytes())


def test_every_folder_of_kept_inputs_belongs_to_a_parser() -> None:
    assert {path.name for path in CORPUS.iterdir()} == set(TARGETS)
