"""Where a fault of ours stops: every exception becomes an error that a client can be told."""

import logging
import traceback

from tidegate.events.errors import JournalUnwritable
from tidegate.gateway.errors import GatewayError

_logger = logging.getLogger("tidegate.gateway.server")


def as_gateway_error(error: Exception, request: str) -> GatewayError:
    """The error as the client is told; what nobody expected is reported here."""
    if isinstance(error, GatewayError):
        return error
    if isinstance(error, JournalUnwritable):
        return journal_unwritable()
    report(f"request {request} failed", error)
    return GatewayError("internal_error", "The gateway failed; the request id helps to find out why.")


def journal_unwritable() -> GatewayError:
    """What clients are told when nothing can be recorded, whatever the reason."""
    return GatewayError("journal_unwritable", "The gateway cannot record requests now.", retry_after_s=1)


def report(what: str, error: BaseException | None = None) -> None:
    """Log class and innermost places of an error, never its text: texts may quote requests or secrets."""
    if error is None:
        _logger.error("%s", what)
        return
    places = traceback.extract_tb(error.__traceback__)[-4:]
    where = " < ".join(f"{place.name}:{place.lineno}" for place in reversed(places))
    _logger.error("%s: %s at %s", what, type(error).__qualname__, where)
