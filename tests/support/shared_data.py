"""Recorded public data that lies beside the repository, never in it."""

import os
from pathlib import Path

import pytest

BESIDE = Path(__file__).resolve().parents[3] / "shared"


def shared_data(path: str) -> Path:
    """A file or folder of the shared data. Skips the test where there is none; fails it in CI."""
    found = Path(os.environ.get("TIDEGATE_SHARED", BESIDE)) / path
    if not found.exists():
        absent = f"{path} is absent: set TIDEGATE_SHARED or put `shared` beside the repository"
        if os.environ.get("CI") == "true":
            pytest.fail(absent)
        pytest.skip(absent)
    return found
