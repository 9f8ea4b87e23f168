"""The provider's request log: in memory, by attempt, and as JSON lines on disk."""

import os
from collections import deque
from pathlib import Path
from typing import Any

import msgspec

from tidegate.simulator.actions import SimRequest
from tidegate.simulator.invoice import Line

_SECRET = frozenset({b"authorization", b"x-api-key"})


class LogFile:
    """One append-only file for all providers of a process; a line is written in one call, unbuffered."""

    def __init__(self, path: Path) -> None:
        self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o644)

    def append(self, line: Line) -> None:
        """Hand the line to the kernel: it survives the death of this process."""
        os.write(self._descriptor, msgspec.json.encode(line) + b"\n")

    def close(self) -> None:
        """Release the descriptor."""
        os.close(self._descriptor)


class RequestLog:
    """All lines of one provider, in order of arrival."""

    def __init__(self, file: LogFile | None, keep_requests: int = 0) -> None:
        self.requests: deque[dict[str, Any]] = deque(maxlen=keep_requests)
        self.lines: list[Line] = []
        self._by_attempt: dict[str, list[Line]] = {}
        self._open: dict[int, Line] = {}
        self._file = file

    def open(self, line: Line, request: SimRequest) -> None:
        """A request arrived; the newest are kept whole where that was asked for, but for their keys."""
        if self.requests.maxlen:
            self.requests.append(_whole(line, request))
        self.lines.append(line)
        self._open[line.ordinal] = line
        if line.attempt is not None:
            self._by_attempt.setdefault(line.attempt, []).append(line)

    def settle(self, line: Line) -> None:
        """The line is final: put it on disk where a file was given."""
        self._open.pop(line.ordinal, None)
        if self._file is not None:
            self._file.append(line)

    def open_attempts(self) -> list[str]:
        """Attempt ids of requests that are still being served."""
        return [line.attempt for line in self._open.values() if line.attempt is not None]

    def of_attempt(self, attempt: str) -> list[Line]:
        """Every line of an attempt id; a repeated id has several."""
        return self._by_attempt.get(attempt, [])


def _whole(line: Line, request: SimRequest) -> dict[str, Any]:
    shown = [
        (name.decode("latin-1"), value.decode("latin-1"))
        for name, value in request.headers
        if name not in _SECRET
    ]
    body = request.body.decode("utf-8", "replace")
    return {
        "ordinal": line.ordinal,
        "path": request.path,
        "query": request.query,
        "headers": shown,
        "body": body,
    }
