"""Progress on standard error: what is being done, and a bar while requests run. Nothing with `--json`."""

from types import TracebackType
from typing import Self

from rich.console import Console
from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    SpinnerColumn,
    TextColumn,
    TimeElapsedColumn,
)

from tidegate.runtime.demo.driver import Tally


class Shown:
    """A line that spins, with a bar of requests; as a context it is drawn until the end."""

    def __init__(self, console: Console, requests: int) -> None:
        self._bar = Progress(
            SpinnerColumn(),
            TextColumn("{task.description}"),
            BarColumn(bar_width=24),
            MofNCompleteColumn(),
            TextColumn("{task.fields[seen]}"),
            TimeElapsedColumn(),
            console=console,
            transient=True,
        )
        self._task = self._bar.add_task("starting", total=requests, seen="")

    def __enter__(self) -> Self:
        self._bar.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._bar.stop()

    def say(self, what: str) -> None:
        """What is being done now."""
        self._bar.update(self._task, description=what)

    def done(self, tally: Tally) -> None:
        """One more request has ended."""
        seen = ", ".join(
            f"{count} {name}"
            for name, count in (("failed", tally.failed), ("refused", tally.refused))
            if count
        )
        self._bar.update(self._task, completed=tally.requests, seen=seen)


class Silent:
    """Says nothing."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def say(self, what: str) -> None:
        """Nothing."""

    def done(self, tally: Tally) -> None:
        """Nothing."""
