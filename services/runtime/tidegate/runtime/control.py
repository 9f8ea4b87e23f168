"""The one writer of `control.v1`: config publishing and kill-switches, each an event with its actor."""

from typing import Any

from tidegate.events import codec
from tidegate.events.clock import Clock
from tidegate.events.config import Routing
from tidegate.events.control import ConfigPublished, TargetDisabled, TargetEnabled
from tidegate.events.envelope import Draft
from tidegate.events.errors import NotAnEnvelope, UnknownEvent
from tidegate.events.ids import IdSource
from tidegate.events.log.port import EventLog, Outgoing
from tidegate.events.partition import partition_of
from tidegate.events.registry import type_of
from tidegate.events.topics import CONTROL
from tidegate.events.types import EventId, TargetId


class Control:
    """Appends control events. The log must be open for the role `control`."""

    def __init__(self, log: EventLog, clock: Clock, ids: IdSource) -> None:
        self._log = log
        self._clock = clock
        self._ids = ids
        self._source = ids.source("control")
        self._seq = 0

    async def publish_if_new(self, routing: Routing, actor: str) -> bool:
        """Publish a config unless the newest one in force is the same. Raises Unavailable."""
        if await self.newest_digest() == routing.digest():
            return False
        digest = routing.digest()
        await self._append("config", digest, ConfigPublished(digest=digest, routing=routing, actor=actor))
        return True

    async def newest_digest(self) -> str | None:
        """Digest of the newest published config."""
        latest, _ = await self._log.latest(CONTROL.name)
        newest: tuple[int, str] | None = None
        for record in latest.values():
            if record.value is None:
                continue
            try:
                envelope = codec.decode_envelope(record.value)
                data = codec.decode_data(envelope) if envelope.type == "ConfigPublished" else None
            except (NotAnEnvelope, UnknownEvent):
                continue
            if isinstance(data, ConfigPublished) and (newest is None or record.append_ns >= newest[0]):
                newest = (record.append_ns, data.digest)
        return None if newest is None else newest[1]

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
