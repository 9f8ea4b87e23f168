"""Structured logs: one JSON object a line on standard error, allow-listed fields only."""

import logging
import sys
from typing import Any

import structlog

ALLOWED = frozenset(
    {
        "event", "level", "timestamp", "role", "slot", "pid", "port", "ports", "host", "path", "why", "error",
        "code", "count", "lag", "position", "topic", "partition", "target", "pool", "route", "digest",
        "duration_ms", "exit_code", "restarts", "backoff_s", "config", "version", "orphans", "requests",
        "bootstrap", "nodes", "subject", "source", "state",
    }
)  # fmt: skip
"""Everything else is dropped: a request, a header or a key can not slip in."""


def only_allowed(_logger: Any, _method: str, fields: structlog.types.EventDict) -> structlog.types.EventDict:
    """structlog processor that drops fields which are not on the list."""
    return {name: value for name, value in fields.items() if name in ALLOWED}


def configure(role: str, slot: str | None = None) -> None:
    """Set up logging for this process; libraries' own logs from WARNING up, as text without arguments."""
    structlog.configure(
        processors=[
            structlog.contextvars.merge_contextvars,
            structlog.processors.add_log_level,
            structlog.processors.TimeStamper(fmt="iso", utc=True),
            only_allowed,
            structlog.processors.JSONRenderer(),
        ],
        logger_factory=structlog.WriteLoggerFactory(file=sys.stderr),
        cache_logger_on_first_use=True,
    )
    structlog.contextvars.clear_contextvars()
    structlog.contextvars.bind_contextvars(role=role, **({} if slot is None else {"slot": slot}))
    logging.basicConfig(level=logging.WARNING, format="%(levelname)s %(name)s: %(message)s", force=True)
    # aiokafka logs every refused connection of a tight retry loop.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def logger() -> Any:
    """The process's logger."""
    return structlog.get_logger()
