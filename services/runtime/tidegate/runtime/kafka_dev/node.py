"""One Kafka node: its folder, its settings, its process."""

import shutil
from pathlib import Path

from tidegate.runtime.kafka_dev.errors import DevKafkaError
from tidegate.runtime.kafka_dev.process import Kafka, ServerProcess, format_storage
from tidegate.runtime.kafka_dev.properties import NodeSettings, node_properties
from tidegate.runtime.kafka_dev.readiness import Readiness, probe


class Node:
    """A node that can be formatted, started, ended in several ways, and started again on its data.

    `folder` belongs to this node alone: properties, output (`server.log`) and data live there.
    """

    def __init__(
        self, kafka: Kafka, settings: NodeSettings, *, folder: Path, cluster_id: str, heap_mib: int
    ) -> None:
        self._kafka = kafka
        self._settings = settings
        self._folder = folder
        self._cluster_id = cluster_id
        self._heap_mib = heap_mib
        self._process: ServerProcess | None = None

    @property
    def node_id(self) -> int:
        return self._settings.ports.node_id

    @property
    def pid(self) -> int | None:
        """The server's process id; None while it does not run."""
        return self._process.pid if self._process is not None else None

    def format(self) -> None:
        """Write properties and, on an empty folder, the storage metadata."""
        self._folder.mkdir(parents=True, exist_ok=True)
        self._properties.write_text(node_properties(self._settings), encoding="utf-8")
        if not (self._settings.log_dir / "meta.properties").exists():
            format_storage(self._kafka, self._properties, self._cluster_id)

    def start(self) -> None:
        """Start the process and return at once; `readiness` tells when it serves."""
        if self._process is not None:
            raise DevKafkaError(f"node {self.node_id} already runs as process {self._process.pid}")
        command = self._kafka.server_command(self._properties, self._heap_mib)
        self._process = ServerProcess(command, self._log)

    def readiness(self) -> Readiness:
        """One look. Raises DevKafkaError with the end of the node's log once its process has ended."""
        self.check()
        ports = self._settings.ports
        return probe(ports.broker, ports.node_id, replication=len(self._settings.members))

    def check(self) -> None:
        """Raise DevKafkaError unless the process runs."""
        self._running()

    def ask_to_stop(self) -> None:
        """Let it end in order (SIGTERM): it hands over its leaders first. Returns at once."""
        if self._process is not None:
            self._process.ask_to_end()

    def stopped_within(self, wait_s: float) -> bool:
        """Wait for the end that was asked for; whether it came."""
        if self._process is not None and not self._process.ended_within(wait_s):
            return False
        self._process = None
        return True

    def kill(self) -> None:
        """End it as a crash would (SIGKILL)."""
        if self._process is not None:
            self._process.kill()
        self._process = None

    def suspend(self) -> None:
        """Let it hang (SIGSTOP): connections stay open and nothing answers."""
        self._running().suspend()

    def resume(self) -> None:
        """Let a suspended node go on."""
        self._running().resume()

    def wipe(self) -> None:
        """Lose the disk: delete all data of an ended node and format it anew."""
        if self._process is not None:
            raise DevKafkaError(f"node {self.node_id} still runs: end it before its data is wiped")
        shutil.rmtree(self._settings.log_dir)
        self.format()

    def _running(self) -> ServerProcess:
        if self._process is None:
            raise DevKafkaError(f"node {self.node_id} is not running")
        code = self._process.exit_code()
        if code is not None:
            tail = "\n".join(self._log.read_text(errors="replace").splitlines()[-12:])
            raise DevKafkaError(f"node {self.node_id} ended with exit code {code}:\n{tail}")
        return self._process

    @property
    def _properties(self) -> Path:
        return self._folder / "server.properties"

    @property
    def _log(self) -> Path:
        return self._folder / "server.log"
