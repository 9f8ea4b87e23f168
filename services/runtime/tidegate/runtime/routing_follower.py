"""Follows the config in force for roles that do not plan: the newest ConfigPublished, else the file's."""

import asyncio

from tidegate.events.config import Routing
from tidegate.events.control import ConfigPublished
from tidegate.events.errors import Unavailable
from tidegate.events.log.port import EventLog
from tidegate.events.topics import CONTROL
from tidegate.runtime.published import config_of, configs_of

POLL_S = 0.25
RETRY_S = 1.0


class RoutingFollower:
    """Calling it gives the routing in force; the same object until it changes."""

    def __init__(self, log: EventLog, routing: Routing) -> None:
        self._log = log
        self._routing = routing

    def __call__(self) -> Routing:
        """The routing in force now."""
        return self._routing

    async def run(self) -> None:
        """Follow until cancelled; an unreachable log is tried again."""
        while True:
            try:
                await self._follow()
            except Unavailable:
                await asyncio.sleep(RETRY_S)

    async def _follow(self) -> None:
        latest, positions = await self._log.latest(CONTROL.name)
        published = configs_of(latest.values())
        # A file whose config was never published is newer than the log: it stays until it is.
        if any(config.digest == self._routing.digest() for config in published):
            self._switch(published[-1])
        reader = self._log.reader(positions)
        try:
            while True:
                for record in await reader.poll(timeout_s=POLL_S):
                    config = config_of(record)
                    if config is not None:
                        self._switch(config)
        finally:
            await reader.close()

    def _switch(self, config: ConfigPublished) -> None:
        if config.digest != self._routing.digest():
            self._routing = config.routing
