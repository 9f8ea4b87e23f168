"""Progress bars: seen at a terminal, and nowhere else."""

from __future__ import annotations

import io
import re

import pytest
from rich.console import Console

from tidegate.runtime.commands import bars as module
from tidegate.runtime.commands.bars import bars


def drawn(monkeypatch: pytest.MonkeyPatch, *, terminal: bool, quiet: bool) -> str:
    out = io.StringIO()
    monkeypatch.setattr(module, "err", Console(file=out, force_terminal=terminal, width=80))
    with bars(quiet=quiet) as phases:
        watch = phases("folding the log")
        watch(0, 100)
        watch(50, 100)
        phases("asking")
        phases("comparing")(1, 7)
    return out.getvalue()


def test_at_a_terminal_the_phase_and_how_far_it_is_are_drawn_and_taken_away(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    text = drawn(monkeypatch, terminal=True, quiet=False)
    assert "comparing" in text
    assert "1/7" in text
    assert not re.search(r"asking[^\r\n]*/100", text), (
        "a phase does not begin with the figures of the one before"
    )
    assert text.endswith("\x1b[2K")  # the line is cleared at the end


@pytest.mark.parametrize(("terminal", "quiet"), [(False, False), (True, True), (False, True)])
def test_without_a_terminal_or_with_json_nothing_is_drawn(
    monkeypatch: pytest.MonkeyPatch, terminal: bool, quiet: bool
) -> None:
    assert drawn(monkeypatch, terminal=terminal, quiet=quiet) == ""
