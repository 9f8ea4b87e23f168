"""Structured logs: one JSON object a line on standard error, allow-listed fields only, whoever it was that spoke:
we, a library, Python's warnings, or an error nobody caught.
"""

import logging
import sys
import threading
import traceback
import warnings
from types import TracebackType
from typing import TYPE_CHECKING, Any, TextIO

from tidegate.events.errors import TidegateError

# structlog loads much of rich: it is imported by who logs, which most commands never do.
if TYPE_CHECKING:
    from structlog.typing import EventDict

ALLOWED = frozenset(
    {
        "event", "level", "timestamp", "role", "slot", "pid", "port", "ports", "host", "path", "why", "error",
        "code", "count", "lag", "position", "topic", "partition", "target", "pool", "route", "digest",
        "duration_ms", "exit_code", "restarts", "backoff_s", "config", "version", "orphans", "requests",
        "bootstrap", "nodes", "subject", "source", "state", "frames",
    }
)  # fmt: skip
"""Everything else is dropped: a request, a header or a key can not slip in."""
MAX_FRAMES = 12
MAX_EVENT_CHARS = 200


def only_allowed(_logger: Any, _method: str, fields: "EventDict") -> "EventDict":
    """structlog processor that drops fields which are not on the list."""
    return {name: value for name, value in fields.items() if name in ALLOWED}


def configure(role: str, slot: str | None = None) -> None:
    """Set up logging for this process; libraries' own logs from WARNING up."""
    import structlog

    process = {"role": role} if slot is None else {"role": role, "slot": slot}

    def named(_logger: Any, _method: str, fields: "EventDict") -> "EventDict":
        return {**process, **fields}

    structlog.configure(
        processors=[
            named,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            only_allowed,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    logging.basicConfig(level=logging.WARNING, handlers=[_Lines()], force=True)
    # aiokafka logs every refused connection of a tight retry loop.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)
    warnings.showwarning = _warned
    sys.excepthook = _uncaught
    threading.excepthook = _uncaught_in_thread
    sys.unraisablehook = _unraisable


def logger() -> Any:
    """The process's logger."""
    import structlog

    return structlog.get_logger()


def facts_of(error: BaseException) -> dict[str, Any]:
    """What may be said of an error: its type and where it came from, and its text only when it is ours or the
    system's: a library's may quote a request, a header or a key."""
    leaves = list(_leaves(error))
    first = leaves[0]
    frames = [
        f"{frame.filename}:{frame.lineno} {frame.name}"
        for frame in traceback.extract_tb(first.__traceback__ or error.__traceback__)
    ]
    facts: dict[str, Any] = {"error": ", ".join(dict.fromkeys(type(each).__name__ for each in leaves))}
    said = [why for each in leaves if (why := _text(each)) is not None]
    if said:
        facts["why"] = "; ".join(said)
    if isinstance(first, TidegateError):
        facts["code"] = first.code
    if isinstance(first, OSError) and isinstance(first.filename, str):
        facts["path"] = first.filename
    return {**facts, "frames": frames[-MAX_FRAMES:]}


def _leaves(error: BaseException) -> list[BaseException]:
    if isinstance(error, BaseExceptionGroup):
        inner: tuple[BaseException, ...] = error.exceptions
        return [leaf for each in inner for leaf in _leaves(each)]
    return [error]


def _text(error: BaseException) -> str | None:
    if isinstance(error, TidegateError):
        return str(error)
    return error.strerror if isinstance(error, OSError) else None


class _Lines(logging.Handler):
    """Standard records as our lines: of others the first line of the template, never what was to be put into it."""

    def emit(self, record: logging.LogRecord) -> None:
        said = record.msg if isinstance(record.msg, str) else type(record.msg).__name__
        if record.name.startswith("tidegate."):  # rooms that know no structlog put in what may be said
            said = record.getMessage()
        error = None if record.exc_info is None else record.exc_info[1]
        logger().log(
            record.levelno,
            (said.splitlines() or [""])[0][:MAX_EVENT_CHARS],
            source=record.name,
            **({} if error is None else facts_of(error)),
        )


def _warned(
    message: Warning | str,
    category: type[Warning],
    filename: str,
    lineno: int,
    file: TextIO | None = None,
    line: str | None = None,
) -> None:
    _ = message, file, line  # its text may quote anything
    logger().warning("warning", error=category.__name__, path=f"{filename}:{lineno}")


def _uncaught(kind: type[BaseException], error: BaseException, _trace: TracebackType | None) -> None:
    if not issubclass(kind, KeyboardInterrupt):
        logger().critical("uncaught error", **facts_of(error))


def _uncaught_in_thread(given: threading.ExceptHookArgs) -> None:
    if given.exc_value is not None:
        name = given.thread.name if given.thread is not None else None
        logger().critical("uncaught error in a thread", source=name, **facts_of(given.exc_value))


def _unraisable(given: "sys.UnraisableHookArgs") -> None:
    if given.exc_value is not None:
        logger().error("error that could not be raised", **facts_of(given.exc_value))
