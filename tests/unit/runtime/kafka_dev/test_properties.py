"""The settings of a development node."""

import socket
from pathlib import Path

import pytest

from tidegate.runtime.kafka_dev.errors import DevKafkaError
from tidegate.runtime.kafka_dev.ports import consecutive_ports, free_ports, refuse_taken
from tidegate.runtime.kafka_dev.properties import NodeSettings, node_properties


def properties_of(nodes: int, node: int = 1) -> dict[str, str]:
    members = consecutive_ports(nodes, 9092)
    text = node_properties(NodeSettings(members[node - 1], members, Path("/data/kafka")))
    return dict(line.split("=", 1) for line in text.splitlines())


def test_every_listener_is_on_loopback() -> None:
    properties = properties_of(3, node=2)
    assert properties["listeners"] == "PLAINTEXT://127.0.0.1:9093,CONTROLLER://127.0.0.1:9096"
    assert properties["advertised.listeners"] == properties["listeners"]


def test_all_nodes_name_the_same_voters() -> None:
    voters = {properties_of(3, node)["controller.quorum.voters"] for node in (1, 2, 3)}
    assert voters == {"1@127.0.0.1:9095,2@127.0.0.1:9096,3@127.0.0.1:9097"}


@pytest.mark.parametrize(("nodes", "factor", "in_sync"), [(1, "1", "1"), (3, "3", "2")])
def test_internal_topics_are_replicated_as_far_as_there_are_nodes(
    nodes: int, factor: str, in_sync: str
) -> None:
    properties = properties_of(nodes)
    factors = {properties[name] for name in properties if name.endswith("replication.factor")}
    minima = {properties[name] for name in properties if name.endswith(("min.isr", "insync.replicas"))}
    assert (factors, minima) == ({factor}, {in_sync})


def test_a_topic_that_is_named_is_made_as_on_any_stock_kafka() -> None:
    assert "auto.create.topics.enable" not in properties_of(1)


def test_free_ports_are_distinct_and_below_the_ephemeral_range() -> None:
    ports = [port for node in free_ports(3) for port in (node.broker, node.controller)]
    assert len(set(ports)) == 6
    assert all(20_000 <= port < 32_000 for port in ports)


def test_a_port_that_something_listens_on_is_named_before_anything_starts() -> None:
    (ports,) = free_ports(1)
    refuse_taken([ports])
    with (
        socket.create_server(("127.0.0.1", ports.controller)),
        pytest.raises(DevKafkaError, match=str(ports.controller)),
    ):
        refuse_taken([ports])
