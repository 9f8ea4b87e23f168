"""One or more Kafka nodes that form a cluster, started and ended together or one by one."""

import base64
import json
import secrets
import time
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Self

from tidegate.runtime.kafka_dev.errors import DevKafkaError
from tidegate.runtime.kafka_dev.node import Node
from tidegate.runtime.kafka_dev.process import Kafka
from tidegate.runtime.kafka_dev.properties import HOST, NodePorts, NodeSettings

START_DEADLINE_S = 60.0
STOP_GRACE_S = 15.0
_POLL_S = 0.1
_HEAP_ALONE_MIB, _HEAP_SHARED_MIB = 512, 384
_CLUSTER_FILE = "cluster.json"


class KafkaCluster:
    """A cluster on loopback in `data_dir`; the same folder, given again, brings back the same data.

    As a context manager it is started and stopped. Methods block; each raises DevKafkaError when a node
    does not do what was asked. `extra` settings go to every node. Not safe for several threads at once.
    """

    def __init__(
        self,
        kafka: Kafka,
        data_dir: Path,
        ports: Sequence[NodePorts],
        extra: Mapping[str, str] | None = None,
    ) -> None:
        self._ports = tuple(ports)
        self._extra = dict(extra or {})
        cluster_id = _cluster_id(data_dir, len(self._ports))
        self._nodes = {p.node_id: self._node(kafka, data_dir, p, cluster_id) for p in self._ports}

    def __enter__(self) -> Self:
        try:
            self.start()
        except BaseException:
            self.kill_all()
            raise
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    @property
    def bootstrap(self) -> str:
        """What a client is given: `host:port`, comma separated."""
        return ",".join(f"{HOST}:{p.broker}" for p in self._ports)

    @property
    def node_ids(self) -> tuple[int, ...]:
        return tuple(self._nodes)

    def pid(self, node_id: int) -> int | None:
        """The process id of a node, None while it does not run."""
        return self._nodes[node_id].pid

    def start(self, deadline_s: float = START_DEADLINE_S) -> None:
        """Format what is new, start all nodes together and wait until each serves."""
        with ThreadPoolExecutor(len(self._nodes)) as pool:
            for _ in pool.map(Node.format, self._nodes.values()):
                pass
        for node in self._nodes.values():
            node.start()
        _wait_ready(self._nodes.values(), deadline_s)

    def close(self) -> None:
        """Stop every running node in order, by force where that takes longer than `STOP_GRACE_S`."""
        _stop(self._nodes.values())

    def kill_all(self) -> None:
        """End every node as a power cut would."""
        for node in self._nodes.values():
            node.kill()

    def stop(self, node_id: int) -> None:
        """End one node in order: it hands over its leaders first."""
        _stop([self._nodes[node_id]])

    def kill(self, node_id: int) -> None:
        """Crash one node."""
        self._nodes[node_id].kill()

    def suspend(self, node_id: int) -> None:
        """Let one node hang with its connections open."""
        self._nodes[node_id].suspend()

    def resume(self, node_id: int) -> None:
        """Let a hanging node go on."""
        self._nodes[node_id].resume()

    def restart(self, *node_ids: int, deadline_s: float = START_DEADLINE_S) -> None:
        """Start ended nodes again on their data and wait until each is back in sync.

        Several at once when fewer than a majority is up: one alone would wait for ever.
        """
        nodes = [self._nodes[node_id] for node_id in node_ids]
        for node in nodes:
            node.start()
        _wait_ready(nodes, deadline_s)

    def wipe(self, node_id: int) -> None:
        """Lose the data of one ended node."""
        self._nodes[node_id].wipe()

    def check(self) -> None:
        """Raise DevKafkaError when a node that should run has ended."""
        for node in self._nodes.values():
            node.check()

    def _node(self, kafka: Kafka, data_dir: Path, ports: NodePorts, cluster_id: str) -> Node:
        folder = data_dir / f"node-{ports.node_id}"
        return Node(
            kafka,
            NodeSettings(ports=ports, members=self._ports, log_dir=folder / "data", extra=self._extra),
            folder=folder,
            cluster_id=cluster_id,
            heap_mib=_HEAP_ALONE_MIB if len(self._ports) == 1 else _HEAP_SHARED_MIB,
        )


def _stop(nodes: Iterable[Node]) -> None:
    # All are asked before any is waited for: the first ones need a quorum to hand their leaders over.
    ending = [node for node in nodes if node.pid is not None]
    deadline = time.monotonic() + STOP_GRACE_S
    try:
        for node in ending:
            node.ask_to_stop()
        for node in ending:
            node.stopped_within(deadline - time.monotonic())
    finally:
        for node in ending:
            node.kill()


def _wait_ready(nodes: Iterable[Node], deadline_s: float) -> None:
    deadline = time.monotonic() + deadline_s
    waiting = dict.fromkeys(nodes, "not asked yet")
    while waiting:
        for node in tuple(waiting):
            answer = node.readiness()
            if answer.ready:
                del waiting[node]
            else:
                waiting[node] = answer.reason
        if waiting and time.monotonic() > deadline:
            reasons = "; ".join(f"node {node.node_id}: {reason}" for node, reason in waiting.items())
            raise DevKafkaError(f"Kafka is not ready after {deadline_s:.0f} s: {reasons}")
        if waiting:
            time.sleep(_POLL_S)


def _cluster_id(data_dir: Path, nodes: int) -> str:
    """The id kept in `data_dir`, made on first use; a folder serves one number of nodes only."""
    file = data_dir / _CLUSTER_FILE
    if file.exists():
        kept = json.loads(file.read_text(encoding="utf-8"))
        if kept["nodes"] != nodes:
            raise DevKafkaError(f"{data_dir} holds a cluster of {kept['nodes']} nodes, not {nodes}")
        return str(kept["cluster_id"])
    data_dir.mkdir(parents=True, exist_ok=True)
    cluster_id = base64.urlsafe_b64encode(secrets.token_bytes(16)).rstrip(b"=").decode()
    file.write_text(json.dumps({"cluster_id": cluster_id, "nodes": nodes}), encoding="utf-8")
    return cluster_id
