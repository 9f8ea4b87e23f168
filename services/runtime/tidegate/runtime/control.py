"""The one writer of `control.v1`: config publishing and kill-switches, each an event with its actor."""

from collections.abc import Sequence
from typing import Any

from tidegate.events import codec
from tidegate.events.clock import Clock
from tidegate.events.config import Routing, Target
from tidegate.events.control import ConfigPublished, TargetDisabled, TargetEnabled
from tidegate.events.envelope import Draft
from tidegate.events.ids import IdSource
from tidegate.events.log.port import EventLog, Outgoing
from tidegate.events.partition import partition_of
from tidegate.events.registry import type_of
from tidegate.events.topics import CONTROL
from tidegate.events.types import EventId, TargetId
from tidegate.runtime.published import IdentityChanged, identity_mistakes, published_configs


class Control:
    """Appends control events. The log must be open for the role `control`."""

    def __init__(self, log: EventLog, clock: Clock, ids: IdSource) -> None:
        self._log = log
        self._clock = clock
        self._ids = ids
        self._source = ids.source("control")
        self._seq = 0

    async def publish_if_new(self, routing: Routing, actor: str) -> bool:
        """Publish a config unless it is the one in force. Raises Unavailable, IdentityChanged."""
        published = await published_configs(self._log)
        digest = routing.digest()
        if published and published[-1].digest == digest:
            return False
        mistakes = identity_mistakes(published, routing)
        if mistakes:
            raise IdentityChanged(mistakes)
        await self._append("config", digest, ConfigPublished(digest=digest, routing=routing, actor=actor))
        return True

    async def newest_digest(self) -> str | None:
        """Digest of the newest published config."""
        published = await published_configs(self._log)
        return published[-1].digest if published else None

    async def newest_targets(self) -> Sequence[Target]:
        """Targets of the newest published config, which may be newer than the file this process has read."""
        published = await published_configs(self._log)
        return published[-1].routing.targets if published else ()

    async def switch(self, target: TargetId, *, disabled: bool, actor: str, reason: str) -> None:
        """Disable or enable a target everywhere. Raises Unavailable."""
        event = (TargetDisabled if disabled else TargetEnabled)(target=target, actor=actor, reason=reason)
        await self._append(f"target:{target}", f"target:{target}", event)

    async def _append(self, entity: str, key: str, data: Any) -> None:
        kind, version = type_of(data)
        self._seq += 1
        draft = Draft(
            id=EventId(self._ids.next()),
            type=kind,
            v=version,
            ts=self._clock.wall_ns(),
            source=self._source,
            seq=self._seq,
            data=data,
        )
        await self._log.append(
            [Outgoing(CONTROL.name, partition_of(entity), key.encode(), codec.encode(draft))]
        )
