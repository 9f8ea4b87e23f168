"""Progress of commands that may take long, on standard error; nothing without a terminal or with `--json`."""

from collections.abc import Callable, Generator
from contextlib import contextmanager

from tidegate.runtime.commands.shared import err

Watch = Callable[[int, int], None]
Phases = Callable[[str], Watch]


@contextmanager
def bars(*, quiet: bool) -> Generator[Phases]:
    """Call it with what is done now; the answer is told how much of how much is done. Gone at the end."""
    if quiet or not err.is_terminal:
        yield _silent
        return
    from rich.progress import (
        BarColumn,
        MofNCompleteColumn,
        Progress,
        SpinnerColumn,
        TextColumn,
        TimeElapsedColumn,
    )

    columns = (
        SpinnerColumn(),
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        MofNCompleteColumn(),
        TimeElapsedColumn(),
    )
    with Progress(*columns, console=err, transient=True) as progress:

        def phase(name: str) -> Watch:
            for done_with in progress.task_ids:
                progress.remove_task(done_with)
            task = progress.add_task(name, total=None)

            def watch(done: int, total: int) -> None:
                progress.update(task, completed=done, total=total)

            return watch

        phase("starting")
        yield phase


def _silent(_phase: str) -> Watch:
    return _unwatched


def _unwatched(_done: int, _total: int) -> None:
    """Nobody looks on."""
