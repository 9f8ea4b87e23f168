"""The properties text of one combined broker and controller node. Pure."""

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

HOST = "127.0.0.1"


@dataclass(frozen=True, slots=True)
class NodePorts:
    """The two listeners of one node, both on loopback."""

    node_id: int
    broker: int
    controller: int


@dataclass(frozen=True, slots=True)
class NodeSettings:
    """One node and the whole cluster it belongs to (`members` includes itself); `extra` settings win."""

    ports: NodePorts
    members: tuple[NodePorts, ...]
    log_dir: Path
    extra: Mapping[str, str] = field(default_factory=dict[str, str])


def node_properties(settings: NodeSettings) -> str:
    """The server.properties of one node, a line per setting."""
    values = {
        **_identity(settings),
        **_replication(len(settings.members)),
        **_FAITHFUL,
        **_FAST_TO_START,
        **_FAST_TO_TIDY,
        **_FAST_TO_FAIL_OVER,
        **settings.extra,
    }
    return "".join(f"{name}={value}\n" for name, value in values.items())


def _identity(settings: NodeSettings) -> dict[str, str]:
    own = settings.ports
    # Static voters: the same line in every node, and a plain `format` for one node as for three.
    voters = ",".join(f"{m.node_id}@{HOST}:{m.controller}" for m in settings.members)
    return {
        "process.roles": "broker,controller",
        "node.id": str(own.node_id),
        "listeners": f"PLAINTEXT://{HOST}:{own.broker},CONTROLLER://{HOST}:{own.controller}",
        "advertised.listeners": f"PLAINTEXT://{HOST}:{own.broker},CONTROLLER://{HOST}:{own.controller}",
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT",
        "inter.broker.listener.name": "PLAINTEXT",
        "controller.listener.names": "CONTROLLER",
        "controller.quorum.voters": voters,
        "log.dirs": str(settings.log_dir),
    }


def _replication(nodes: int) -> dict[str, str]:
    factor, in_sync = str(nodes), str(min(2, nodes))
    return {
        "default.replication.factor": factor,
        "min.insync.replicas": in_sync,
        "offsets.topic.replication.factor": factor,
        "transaction.state.log.replication.factor": factor,
        "transaction.state.log.min.isr": in_sync,
        "share.coordinator.state.topic.replication.factor": factor,
        "share.coordinator.state.topic.min.isr": in_sync,
    }


_FAST_TO_START = {
    "num.network.threads": "2",
    "num.io.threads": "4",
    # Each partition of these costs start-up and failover time.
    "offsets.topic.num.partitions": "4",
    "transaction.state.log.num.partitions": "4",
    "share.coordinator.state.topic.num.partitions": "1",
    "group.initial.rebalance.delay.ms": "0",
    "group.min.session.timeout.ms": "1000",
    # Two of these files are made ahead for each of hundreds of partitions.
    "log.index.size.max.bytes": str(256 << 10),
}
_FAITHFUL = {
    # Longer than any topic is kept: a writer that was away for long still finds where it stood.
    "offsets.retention.minutes": str(30 * 24 * 60),
}
_FAST_TO_TIDY = {
    "log.cleaner.backoff.ms": "500",
    # The default of 128 MiB is a quarter of the heap; this still holds a million keys.
    "log.cleaner.dedupe.buffer.size": str(32 << 20),
    # A transaction whose writer hangs is aborted within a second of its timeout, not ten.
    "transaction.abort.timed.out.transaction.cleanup.interval.ms": "1000",
}
_FAST_TO_FAIL_OVER = {
    # Also how long a node that crashed and came back waits for its former self to expire.
    "broker.session.timeout.ms": "3000",
    "broker.heartbeat.interval.ms": "1000",
}
