"""One Kafka JVM as a child process that cannot outlive us, and the command lines it runs with."""

import os
import signal
import subprocess
from dataclasses import dataclass
from pathlib import Path

from tidegate.runtime.kafka_dev.errors import DevKafkaError
from tidegate.runtime.kafka_dev.java import Java

_FORMAT_TIMEOUT_S = 60.0
_TOOL_HEAP_MIB = 256
# JVM options for short lives on few cores: no parallel collector threads, no slow second compiler.
_SHORT_LIVED = ("-XX:+UseSerialGC", "-XX:ActiveProcessorCount=2", "-XX:TieredStopAtLevel=1")
# End of input is how a shell learns that its parent died, however it died.
_WATCHDOG = 'read -r _ || kill -9 "$1"'


@dataclass(frozen=True, slots=True)
class Kafka:
    """An installed Kafka: a Java and a folder of jars."""

    java: Java
    jars: Path

    def server_command(self, properties: Path, heap_mib: int) -> list[str]:
        return [*self._jvm(min(256, heap_mib), heap_mib), "kafka.Kafka", str(properties)]

    def format_command(self, properties: Path, cluster_id: str) -> list[str]:
        # Its own heap: a maximum below the default initial size would not start.
        tool = [*self._jvm(_TOOL_HEAP_MIB, _TOOL_HEAP_MIB), "kafka.tools.StorageTool", "format"]
        # One argument: an id may begin with a dash.
        return [*tool, "--ignore-formatted", f"--cluster-id={cluster_id}", "--config", str(properties)]

    def _jvm(self, initial_mib: int, maximum_mib: int) -> list[str]:
        heap = (f"-Xms{initial_mib}m", f"-Xmx{maximum_mib}m")
        quiet = ("-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", "-Dlog4j2.level=warn")
        return [str(self.java.executable), *heap, *_SHORT_LIVED, *quiet, "-cp", f"{self.jars}/*"]


def format_storage(kafka: Kafka, properties: Path, cluster_id: str) -> None:
    """Write the metadata of an empty node (about 1.5 s); a formatted one is left as it is.

    Raises DevKafkaError with the tool's own words.
    """
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments, no shell
            kafka.format_command(properties, cluster_id),
            capture_output=True,
            text=True,
            timeout=_FORMAT_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        raise DevKafkaError(f"could not format a Kafka node: {error}") from error
    if done.returncode != 0:
        raise DevKafkaError(f"could not format a Kafka node:\n{done.stdout}{done.stderr}")


class ServerProcess:
    """A running server; its output is appended to `log`."""

    def __init__(self, command: list[str], log: Path) -> None:
        with log.open("ab") as output:
            # A session of its own: Ctrl-C in a terminal reaches us only, and we stop nodes in order.
            self._server = subprocess.Popen(  # noqa: S603 - fixed arguments, no shell
                command, stdin=subprocess.DEVNULL, stdout=output, stderr=output, start_new_session=True
            )
        self._watchdog = subprocess.Popen(  # noqa: S603 - fixed arguments
            ["/bin/sh", "-c", _WATCHDOG, "sh", str(self._server.pid)],
            stdin=subprocess.PIPE,
            start_new_session=True,
        )

    @property
    def pid(self) -> int:
        return self._server.pid

    def exit_code(self) -> int | None:
        """None while it runs."""
        return self._server.poll()

    def suspend(self) -> None:
        """SIGSTOP, and wait until every thread stands still."""
        self._send(signal.SIGSTOP)
        os.waitpid(self._server.pid, os.WUNTRACED)

    def resume(self) -> None:
        """Let a suspended process go on."""
        self._send(signal.SIGCONT)

    def ask_to_end(self) -> None:
        """SIGTERM; a suspended process is woken, or it would never see it."""
        for number in (signal.SIGCONT, signal.SIGTERM):
            self._send(number)

    def ended_within(self, wait_s: float) -> bool:
        """Wait for the end; whether it came."""
        try:
            self._server.wait(max(0.0, wait_s))
        except subprocess.TimeoutExpired:
            return False
        self._dismiss()
        return True

    def kill(self) -> None:
        """SIGKILL, and wait until the process is gone."""
        self._server.kill()
        self._server.wait()
        self._dismiss()

    def _send(self, number: signal.Signals) -> None:
        self._server.send_signal(number)

    def _dismiss(self) -> None:
        self._watchdog.kill()
        self._watchdog.communicate()
