"""Errors of the read model, by what the caller can do."""

from tidegate.events.errors import Broken, Refused, Unavailable


class SqlRefused(Refused):
    """The text is not exactly one SELECT over the read model; it never reached the database."""

    code = "sql_refused"


class SqlFailed(Refused):
    """The database could not run the query: unknown column, bad parameter, wrong type."""

    code = "sql_failed"


class QueryTooLarge(Refused):
    """The query needs more memory than one query may have, or its answer is too large."""

    code = "query_too_large"


class QueryTimeout(Unavailable):
    """The query ran, or waited for a slot, longer than its time limit."""

    code = "query_timeout"


class NotCaughtUp(Unavailable):
    """The read model has not reached the position that was asked for."""

    code = "not_caught_up"


class StoreTaken(Refused):
    """Another process has the database open."""

    code = "store_taken"


class StoreUnusable(Broken):
    """The database file cannot be opened: no permission, no space, or damaged."""

    code = "store_unusable"
