"""A cluster's folder and its processes, with a stand-in for the JVM."""

import os
import select
import signal
import subprocess
import sys
from collections.abc import Generator
from pathlib import Path

import pytest

from tidegate.runtime.kafka_dev.cluster import KafkaCluster
from tidegate.runtime.kafka_dev.errors import DevKafkaError
from tidegate.runtime.kafka_dev.java import Java
from tidegate.runtime.kafka_dev.ports import free_ports
from tidegate.runtime.kafka_dev.process import Kafka, ServerProcess

KAFKA = Kafka(Java(Path("/opt/java"), 17), Path("/opt/jars"))


@pytest.fixture
def sleeper(tmp_path: Path) -> Generator[ServerProcess]:
    process = ServerProcess(["sleep", "600"], tmp_path / "log")
    yield process
    process.kill()


def test_a_folder_keeps_its_cluster_id(tmp_path: Path) -> None:
    KafkaCluster(KAFKA, tmp_path, free_ports(3))
    kept = (tmp_path / "cluster.json").read_text()
    KafkaCluster(KAFKA, tmp_path, free_ports(3))
    assert (tmp_path / "cluster.json").read_text() == kept


def test_a_folder_of_one_node_is_not_opened_as_three(tmp_path: Path) -> None:
    KafkaCluster(KAFKA, tmp_path, free_ports(1))
    with pytest.raises(DevKafkaError, match="holds a cluster of 1 nodes, not 3"):
        KafkaCluster(KAFKA, tmp_path, free_ports(3))


def test_an_id_that_begins_with_a_dash_is_not_taken_for_an_option() -> None:
    command = KAFKA.format_command(Path("server.properties"), "-VyLOVg8Rk-oM5bgFd0y3w")
    assert not [argument for argument in command if argument.startswith("-Vy")]


def test_a_suspended_process_still_hears_the_request_to_end(sleeper: ServerProcess) -> None:
    sleeper.suspend()
    sleeper.ask_to_end()
    assert sleeper.ended_within(30)
    assert sleeper.exit_code() == -signal.SIGTERM


def test_a_process_that_will_not_end_is_reported(tmp_path: Path) -> None:
    deaf = ServerProcess(["/bin/sh", "-c", "trap '' TERM; echo deaf; exec sleep 600"], tmp_path / "log")
    while not (tmp_path / "log").read_text():
        assert deaf.exit_code() is None
    deaf.ask_to_end()
    assert not deaf.ended_within(0.01)
    deaf.kill()
    assert deaf.exit_code() == -signal.SIGKILL


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="waits on a pidfd")
def test_a_server_does_not_outlive_a_killed_parent(tmp_path: Path) -> None:
    program = (
        "import pathlib, sys, signal\n"
        "from tidegate.runtime.kafka_dev.process import ServerProcess\n"
        "server = ServerProcess(['sleep', '600'], pathlib.Path(sys.argv[1]))\n"
        "print(server.pid, flush=True)\n"
        "signal.pause()\n"
    )
    parent = subprocess.Popen([sys.executable, "-c", program, str(tmp_path / "log")], stdout=subprocess.PIPE)
    assert parent.stdout is not None
    server = os.pidfd_open(int(parent.stdout.readline()))
    parent.kill()
    parent.communicate()
    try:
        ended, _, _ = select.select([server], [], [], 30)
        assert ended
    finally:
        os.close(server)
