"""What a read model answers instead of rows, as errors a caller can act on."""

from tidegate.events.errors import Refused, Unavailable


class QueryRefused(Refused):
    """The query is at fault: no SELECT, unknown column, too large. `code` says which."""

    def __init__(self, message: str, code: str = "refused") -> None:
        super().__init__(message)
        self.code = code


class QueryUnavailable(Unavailable):
    """Try later: no projector, not caught up, busy, too slow. `code` says which."""

    def __init__(self, message: str, code: str = "unavailable", retry_after_s: float | None = None) -> None:
        super().__init__(message, retry_after_s)
        self.code = code


class UnknownQuery(Refused):
    """No named query has this name, or its parameters are wrong."""

    code = "unknown_query"
