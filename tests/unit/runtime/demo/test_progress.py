"""What a person sees while the demo runs, and that `--json` sees nothing."""

import io

from rich.console import Console

from tidegate.runtime.demo.driver import Tally
from tidegate.runtime.demo.progress import Shown, Silent


def test_what_is_being_done_and_what_went_wrong_is_shown_and_wiped_at_the_end() -> None:
    text = io.StringIO()
    console = Console(file=text, force_terminal=True, width=100)
    with Shown(console, 40) as progress:
        progress.say("driving 40 requests")
        progress.done(Tally(succeeded=9, failed=2, refused=1))
    shown = text.getvalue()
    assert "driving 40 requests" in shown
    assert "12/40" in shown
    assert "2 failed, 1 refused" in shown
    assert shown.endswith("\x1b[2K"), "the line is wiped"


def test_the_silent_one_can_be_used_in_its_place() -> None:
    with Silent() as progress:
        progress.say("anything")
        progress.done(Tally())
