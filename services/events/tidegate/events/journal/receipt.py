"""What the journal hands out: the fate of a batch, a buffered event's receipt, a request's shared fields."""

import asyncio

import msgspec

from tidegate.events.errors import JournalUnwritable
from tidegate.events.types import EventId


class Batch:
    """The events of one flush: their fate is one."""

    __slots__ = ("done", "error", "waiters")

    def __init__(self) -> None:
        self.done = False
        self.error: JournalUnwritable | None = None
        self.waiters: list[asyncio.Future[None]] = []

    def end(self, error: JournalUnwritable | None) -> None:
        """Tell everybody who waits."""
        self.done, self.error = True, error
        for waiter in self.waiters:
            if not waiter.done():
                if error is None:
                    waiter.set_result(None)
                else:
                    waiter.set_exception(error)


class Receipt(msgspec.Struct, frozen=True):
    """A buffered event: its seq and id hold only if its batch is committed."""

    seq: int
    event: EventId
    batch: Batch


class Context:
    """Envelope fields that the events of one request share."""

    __slots__ = ("cause", "request", "session", "tenant")

    def __init__(
        self,
        tenant: str | None = None,
        request: str | None = None,
        session: str | None = None,
        cause: str | None = None,
    ) -> None:
        self.tenant = tenant
        self.request = request
        self.session = session
        self.cause = cause


NO_CONTEXT = Context()
