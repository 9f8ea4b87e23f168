"""Starting a client of aiokafka: cut half-way, it would forget a connection it has just made."""

import asyncio
from typing import Any, Protocol

_END_S = 2.0


class Startable(Protocol):
    """A consumer, a producer or an administrator."""

    def start(self) -> Any: ...


async def start_whole(client: Startable, deadline_s: float | None = None) -> None:
    """Start the client. Raises KafkaError, and TimeoutError after `deadline_s`.

    However this ends, also by a cancellation, the start itself was let to its own end first, for two seconds at
    most: who closes the client then closes all that it has opened.
    """
    starting = asyncio.ensure_future(client.start())
    try:
        async with asyncio.timeout(deadline_s):
            await asyncio.shield(starting)
    except BaseException:
        await _ended(starting)
        raise


async def _ended(starting: "asyncio.Future[None]") -> None:
    await asyncio.wait([starting], timeout=_END_S)
    if not starting.done():
        starting.cancel()
        await asyncio.wait([starting])
    if not starting.cancelled():
        starting.exception()  # seen: the caller was told, or has left
