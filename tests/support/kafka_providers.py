"""Where tests can get a Kafka broker from, and what can be done to it there."""

import itertools
import secrets
import shutil
import socket
import urllib.parse
from collections.abc import Callable, Generator, Mapping
from contextlib import AbstractContextManager, closing, contextmanager
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import NoReturn, Protocol

from tidegate.runtime.kafka_dev.artifacts import KAFKA_VERSION, ensure_jars, jars_folder
from tidegate.runtime.kafka_dev.cluster import KafkaCluster
from tidegate.runtime.kafka_dev.errors import DevKafkaError
from tidegate.runtime.kafka_dev.installation import Places
from tidegate.runtime.kafka_dev.java import Java, find_java
from tidegate.runtime.kafka_dev.ports import free_ports
from tidegate.runtime.kafka_dev.process import Kafka

BOOTSTRAP_VARIABLE = "TIDEGATE_TEST_KAFKA"
INSTALL_HINT = (
    f"install Java 17+ and Maven, or Docker, or set {BOOTSTRAP_VARIABLE} to the bootstrap servers of a broker"
)


@dataclass(frozen=True, slots=True)
class Capabilities:
    """What a test may do to the broker beyond talking to it."""

    multi_node: bool = False
    kill: bool = False
    restart: bool = False

    def lacking(self, needed: tuple[str, ...]) -> tuple[str, ...]:
        known = {f.name for f in fields(self)}
        unknown = set(needed) - known
        if unknown:
            raise ValueError(f"no such capability: {', '.join(sorted(unknown))}; there are {sorted(known)}")
        return tuple(name for name in needed if not getattr(self, name))


def _new_run() -> str:
    return f"t{secrets.token_hex(4)}"


@dataclass(slots=True)
class Broker:
    """A broker under test. `skip` ends the calling test, with a reason."""

    bootstrap: str
    label: str
    skip: Callable[[str], NoReturn]
    cluster: KafkaCluster | None = None
    capabilities: Capabilities = Capabilities()
    _run: str = field(default_factory=_new_run)
    _numbers: "itertools.count[int]" = field(default_factory=itertools.count)

    def prefix(self) -> str:
        """A prefix for names of topics, groups and transactional ids that nobody else uses."""
        return f"{self._run}-{next(self._numbers)}."

    def require(self, *needed: str) -> KafkaCluster:
        """The cluster to act on; skips the calling test where this broker lacks a capability."""
        lacking = self.capabilities.lacking(needed)
        if lacking or self.cluster is None:
            self.skip(f"{self.label} cannot {' or '.join(lacking or needed)} its nodes")
        return self.cluster


class Provider(Protocol):
    """One way to get a broker."""

    @property
    def label(self) -> str: ...

    @property
    def capabilities(self) -> Capabilities: ...

    def open(
        self, nodes: int, folder: Path, skip: Callable[[str], NoReturn]
    ) -> AbstractContextManager[Broker]:
        """A broker that lives as long as the context. Raises DevKafkaError when it cannot be had."""
        ...


@dataclass(frozen=True, slots=True)
class ExternalKafka:
    """A broker somebody else runs; we only use it."""

    bootstrap: str
    capabilities: Capabilities = Capabilities()

    @property
    def label(self) -> str:
        return f"the broker at {self.bootstrap} ({BOOTSTRAP_VARIABLE})"

    @contextmanager
    def open(self, nodes: int, folder: Path, skip: Callable[[str], NoReturn]) -> Generator[Broker]:
        host, _, port = self.bootstrap.split(",")[0].rpartition(":")
        try:
            socket.create_connection((host, int(port)), timeout=5).close()
        except (OSError, ValueError) as error:
            raise DevKafkaError(f"{self.label} does not answer: {error}") from error
        yield Broker(self.bootstrap, self.label, skip)


@dataclass(frozen=True, slots=True)
class LocalKafka:
    """Apache Kafka on this machine's Java."""

    java: Java
    cache_dir: Path
    capabilities: Capabilities = Capabilities(multi_node=True, kill=True, restart=True)

    @property
    def label(self) -> str:
        source = "jars cached" if jars_folder(self.cache_dir).is_dir() else "jars through mvn"
        return f"Apache Kafka {KAFKA_VERSION} on Java {self.java.major} ({source})"

    @contextmanager
    def open(self, nodes: int, folder: Path, skip: Callable[[str], NoReturn]) -> Generator[Broker]:
        kafka = Kafka(java=self.java, jars=ensure_jars(self.cache_dir, self.java))
        with KafkaCluster(kafka, folder, free_ports(nodes)) as cluster:
            try:
                yield Broker(cluster.bootstrap, self.label, skip, cluster, self.capabilities)
            finally:
                cluster.kill_all()  # nobody needs its data: an orderly stop would only take longer
        for data in folder.glob("node-*/data"):  # what stays is small: settings and logs
            shutil.rmtree(data)


@dataclass(frozen=True, slots=True)
class ContainerKafka:
    """A broker in a Docker container."""

    capabilities: Capabilities = Capabilities()
    label: str = "a Kafka container (testcontainers)"

    @contextmanager
    def open(self, nodes: int, folder: Path, skip: Callable[[str], NoReturn]) -> Generator[Broker]:
        from testcontainers.community.kafka import KafkaContainer  # slow to import

        try:
            container = KafkaContainer().with_kraft().start(timeout=120)
        except Exception as error:  # whatever Docker or a registry has to say
            raise DevKafkaError(f"{self.label} did not start: {error}") from error
        try:
            yield Broker(container.get_bootstrap_server(), self.label, skip)
        finally:
            container.stop()


@dataclass(frozen=True, slots=True)
class Choice:
    """Providers to try, best first, and why others are not among them."""

    providers: tuple[Provider, ...]
    unusable: tuple[str, ...] = ()


def choose(environment: Mapping[str, str], places: Places) -> Choice:
    """Look, without starting anything, at what could serve a broker."""
    bootstrap = environment.get(BOOTSTRAP_VARIABLE)
    if bootstrap:  # asked for by name: nothing else will do
        return Choice((ExternalKafka(bootstrap),))
    providers: list[Provider] = []
    unusable: list[str] = []
    try:
        java = find_java(places.java_home)
    except DevKafkaError as error:
        unusable.append(str(error))
    else:
        if jars_folder(places.cache_dir).is_dir() or shutil.which("mvn"):
            providers.append(LocalKafka(java, places.cache_dir))
        else:
            unusable.append("no `mvn` on PATH to fetch Kafka's jars with")
    if docker_answers(environment.get("DOCKER_HOST") or "unix:///var/run/docker.sock"):
        providers.append(ContainerKafka())
    else:
        unusable.append("Docker does not answer")
    return Choice(tuple(providers), tuple(unusable))


def docker_answers(address: str) -> bool:
    """Whether somebody listens at a DOCKER_HOST address."""
    url = urllib.parse.urlsplit(address)
    family = socket.AF_UNIX if url.scheme == "unix" else socket.AF_INET
    try:
        with closing(socket.socket(family)) as connection:
            connection.settimeout(2)
            connection.connect(url.path if url.scheme == "unix" else (url.hostname, url.port or 2375))
    except (OSError, TypeError):
        return False
    return True
