"""Configs in the control log, and what a published target binds its id to."""

from collections.abc import Iterable, Iterator, Mapping

from tidegate.events import codec
from tidegate.events.config import Routing, Target
from tidegate.events.control import ConfigPublished
from tidegate.events.errors import NotAnEnvelope, Refused, UnknownEvent
from tidegate.events.log.port import EventLog, Record
from tidegate.events.topics import CONTROL
from tidegate.events.types import TargetId
from tidegate.runtime.toml_lines import Path
from tidegate.runtime.validation import Mistake, as_far_as_read


class IdentityChanged(Refused):
    """A config that binds a published target id to something else; `mistakes` says which and what."""

    code = "identity_changed"

    def __init__(self, mistakes: list[Mistake]) -> None:
        super().__init__("; ".join(mistake.message for mistake in mistakes))
        self.mistakes = mistakes


def config_of(record: Record) -> ConfigPublished | None:
    """The config that a control record publishes; None for every other record."""
    if record.value is None:
        return None
    try:
        envelope = codec.decode_envelope(record.value)
        data = codec.decode_data(envelope) if envelope.type == "ConfigPublished" else None
    except (NotAnEnvelope, UnknownEvent):
        return None
    return data if isinstance(data, ConfigPublished) else None


def configs_of(records: Iterable[Record]) -> list[ConfigPublished]:
    """Published configs in the order of their publication: of the log, which has them all in one partition.

    A clock says less: one that was ahead for a while would make a config win over those published since.
    """
    ordered = sorted(records, key=lambda record: (record.partition, record.offset))
    return [config for record in ordered if (config := config_of(record)) is not None]


async def published_configs(log: EventLog) -> list[ConfigPublished]:
    """Every config that was ever published, the one in force last. Raises Unavailable."""
    latest, _ = await log.latest(CONTROL.name)
    return configs_of(latest.values())


def identity_mistakes(published: Iterable[ConfigPublished], routing: Routing) -> list[Mistake]:
    """Targets whose id already stands for another pool, provider, model or credential reference.

    Beliefs, prices and ledgers are kept by id: what was learned of one upstream would be said of another.
    """
    known: dict[TargetId, Target] = {}
    for config in published:
        known.update({target.id: target for target in config.routing.targets})
    mistakes: list[Mistake] = []
    for index, target in enumerate(routing.targets):
        mistakes += _rebound(("targets", index), target, known)
    return mistakes


@as_far_as_read
def _rebound(path: Path, target: Target, known: Mapping[TargetId, Target]) -> Iterator[Mistake]:
    before = known.get(target.id)
    for name in [] if before is None else _changed(before, target):
        said = f"`{target.id}` was published with another {name}: give the target a new id"
        yield Mistake((*path, name), said)


def _changed(before: Target, now: Target) -> list[str]:
    pairs = {
        "pool": (before.pool_id, now.pool_id),
        "provider": (before.provider, now.provider),
        "model": (before.model, now.model),
        "secret": (before.secret, now.secret),
    }
    return [name for name, (old, new) in pairs.items() if old != new]
