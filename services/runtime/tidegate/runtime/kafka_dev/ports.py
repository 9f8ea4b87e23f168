"""Loopback ports for the listeners of a cluster."""

import random
import socket
from collections.abc import Iterable

from tidegate.runtime.kafka_dev.errors import DevKafkaError
from tidegate.runtime.kafka_dev.properties import HOST, NodePorts

# Below the ephemeral ports of Linux and macOS: a node that is down must find its port free when it
# comes back, and a client that retries a closed ephemeral port can connect to itself.
_FIRST, _LAST = 20_000, 31_999


def consecutive_ports(nodes: int, first: int) -> tuple[NodePorts, ...]:
    """Brokers on `first`, `first` + 1, …; controllers on the ports after the last broker's."""
    return tuple(
        NodePorts(node_id=i + 1, broker=first + i, controller=first + nodes + i) for i in range(nodes)
    )


def refuse_taken(ports: Iterable[NodePorts]) -> None:
    """Raises DevKafkaError naming the ports that something else listens on."""
    taken = [port for each in ports for port in (each.broker, each.controller) if not _is_free(port)]
    if taken:
        listed = ", ".join(map(str, taken))
        raise DevKafkaError(
            f"something listens on port {listed} of {HOST} already: choose others with --port"
        )


def free_ports(nodes: int) -> tuple[NodePorts, ...]:
    """Ports that nothing listens on now, drawn at random so that parallel runs rarely meet.

    Raises DevKafkaError when the whole range is taken.
    """
    drawn = random.SystemRandom().sample(range(_FIRST, _LAST + 1), _LAST + 1 - _FIRST)
    free: list[int] = []
    for port in drawn:
        if _is_free(port):
            free.append(port)
        if len(free) == 2 * nodes:
            return tuple(
                NodePorts(node_id=i + 1, broker=free[2 * i], controller=free[2 * i + 1]) for i in range(nodes)
            )
    raise DevKafkaError(f"no free loopback ports between {_FIRST} and {_LAST}")


def _is_free(port: int) -> bool:
    with socket.socket() as listener:
        # As the JVM does: connections of an earlier listener that still linger do not count.
        listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            listener.bind((HOST, port))
        except OSError:
            return False
    return True
