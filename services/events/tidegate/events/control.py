"""Events of the control topic, and the two records that belong to every topic: SourceClosed, DeadLetter."""

import msgspec

from tidegate.events.bounds import Seq
from tidegate.events.config import Routing
from tidegate.events.types import TargetId


class ConfigPublished(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A config came into force. Its record key is the digest: the compacted latest keeps every config."""

    digest: str
    routing: Routing
    actor: str


class TargetEnabled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A target may be used again; overlays the config until reversed."""

    target: TargetId
    actor: str
    reason: str = ""


class TargetDisabled(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """Kill-switch: the target is not used from now on; overlays the config until reversed."""

    target: TargetId
    actor: str
    reason: str = ""


class SourceClosed(msgspec.Struct, frozen=True, kw_only=True):
    """A source wrote its last event; its mark may retire after 7 days."""

    last_seq: Seq


class DeadLetter(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """A record that is no envelope or tells numbers beyond bounds: coordinates and hash, never its bytes."""

    topic: str
    partition: int
    offset: int
    sha256: str
    length: int
    error: str
