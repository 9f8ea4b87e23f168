"""`tidegate dev kafka`: a real Kafka in the foreground until the user ends it."""

import signal
import time
from collections.abc import Callable, Generator
from contextlib import contextmanager
from pathlib import Path

from tidegate.runtime.kafka_dev.artifacts import jars_folder
from tidegate.runtime.kafka_dev.cluster import KafkaCluster
from tidegate.runtime.kafka_dev.installation import Places, install
from tidegate.runtime.kafka_dev.ports import consecutive_ports, refuse_taken

_WATCH_S = 0.5


def run_dev_kafka(
    nodes: int, data_dir: Path, port: int, *, places: Places, say: Callable[[str], None]
) -> None:
    """Run `nodes` Kafka nodes in `data_dir`, the first broker on `port`, until SIGINT or SIGTERM.

    Brokers take `port`, `port` + 1, …, controllers the ports after them. `say` gets what the user is told;
    the bootstrap address comes alone on a line. Data stays in `data_dir` for the next run. A second signal
    while stopping ends the nodes by force. Must be called in the main thread.
    Raises DevKafkaError when Kafka cannot be fetched or started, or when a node ends by itself.
    """
    with _ended_by_signals():
        try:
            if not jars_folder(places.cache_dir).is_dir():
                say("fetching Kafka with Maven, once (43 MB)")
            kafka = install(places)
            ports = consecutive_ports(nodes, port)
            refuse_taken(ports)
            say(f"starting {nodes} Kafka node(s) in {data_dir} on Java {kafka.java.major}")
            with KafkaCluster(kafka, data_dir, ports) as cluster:
                say("ready; Ctrl-C stops it. Bootstrap servers:")
                say(cluster.bootstrap)
                while True:
                    cluster.check()
                    time.sleep(_WATCH_S)
        except KeyboardInterrupt:
            say("stopped")


@contextmanager
def _ended_by_signals() -> Generator[None]:
    before = {
        number: signal.signal(number, signal.default_int_handler)
        for number in (signal.SIGINT, signal.SIGTERM)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)
