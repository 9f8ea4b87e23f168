"""Waiting with an end: what does not come in time is an error that says what is missing."""

import asyncio
import contextlib
from collections.abc import AsyncGenerator, Callable

from tidegate.events.errors import Unavailable


class NotInTime(Unavailable):
    """What was waited for did not come; the message says what and how long."""

    code = "not_in_time"


@contextlib.asynccontextmanager
async def in_time(deadline_s: float, missing: Callable[[], str]) -> AsyncGenerator[None]:
    """A block that must end within `deadline_s`. Raises NotInTime with what `missing` says then."""
    try:
        async with asyncio.timeout(deadline_s):
            yield
    except TimeoutError as error:
        raise NotInTime(f"after {deadline_s:g} s {missing()}") from error
