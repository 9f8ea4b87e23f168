"""Kafka's jars: fetched once with Maven, kept in a cache folder that is either whole or absent."""

import fcntl
import shutil
import subprocess
import tempfile
from collections.abc import Generator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

from tidegate.runtime.kafka_dev.errors import DevKafkaError
from tidegate.runtime.kafka_dev.java import Java

KAFKA_VERSION = "4.1.2"
_COPY_GOAL = "org.apache.maven.plugins:maven-dependency-plugin:3.8.1:copy-dependencies"
_FETCH_TIMEOUT_S = 600.0


@dataclass(frozen=True, slots=True)
class Artifact:
    """Maven coordinates of one jar; its dependencies follow at runtime scope."""

    group: str
    name: str
    version: str


ARTIFACTS = (
    Artifact("org.apache.kafka", "kafka_2.13", KAFKA_VERSION),
    # The backend of the slf4j line that this Kafka resolves: logs to standard error, level by a property.
    Artifact("org.slf4j", "slf4j-simple", "1.7.36"),
)


def pom_xml(artifacts: tuple[Artifact, ...] = ARTIFACTS) -> str:
    """A Maven project that depends on `artifacts`; it names no repository, the user's settings do."""
    dependencies = "".join(
        f"<dependency><groupId>{a.group}</groupId><artifactId>{a.name}</artifactId>"
        f"<version>{a.version}</version></dependency>"
        for a in artifacts
    )
    return (
        '<project xmlns="http://maven.apache.org/POM/4.0.0"><modelVersion>4.0.0</modelVersion>'
        "<groupId>tidegate</groupId><artifactId>dev-kafka</artifactId><version>1</version>"
        f"<packaging>pom</packaging><dependencies>{dependencies}</dependencies></project>"
    )


def jars_folder(cache_dir: Path) -> Path:
    """Where the jars are or will be; it exists only when complete."""
    return cache_dir / f"kafka-{KAFKA_VERSION}"


def ensure_jars(cache_dir: Path, java: Java) -> Path:
    """The folder with every jar Kafka needs; fetches them when absent (about half a minute, 43 MB).

    Safe to call from several processes: one fetches, the others wait.
    Raises DevKafkaError when Maven is missing or cannot fetch.
    """
    folder = jars_folder(cache_dir)
    if folder.is_dir():
        return folder
    cache_dir.mkdir(parents=True, exist_ok=True)
    with _locked(cache_dir / f"{folder.name}.lock"):
        if not folder.is_dir():
            _fetch(folder, java)
    return folder


@contextmanager
def _locked(path: Path) -> Generator[None]:
    with path.open("w") as file:
        fcntl.flock(file, fcntl.LOCK_EX)
        yield


def _fetch(folder: Path, java: Java) -> None:
    maven = shutil.which("mvn")
    if maven is None:
        raise DevKafkaError(f"no Kafka jars in {folder} and no `mvn` on PATH to fetch them: install Maven")
    # Beside the final folder, so that the rename below stays on one file system.
    with tempfile.TemporaryDirectory(prefix=f".{folder.name}.", dir=folder.parent) as scratch:
        pom, jars = Path(scratch) / "pom.xml", Path(scratch) / "jars"
        pom.write_text(pom_xml(), encoding="utf-8")
        _run_maven([maven, "-q", "-B", "-C", "-f", str(pom), _COPY_GOAL], jars, java)
        jars.rename(folder)


def _run_maven(command: list[str], jars: Path, java: Java) -> None:
    # `env` hands our Java to Maven's start script without this process reading its own environment.
    with_java = [
        "env",
        f"JAVA_HOME={java.home}",
        *command,
        "-DincludeScope=runtime",
        f"-DoutputDirectory={jars}",
    ]
    try:
        done = subprocess.run(  # noqa: S603 - fixed arguments, no shell
            with_java, capture_output=True, text=True, timeout=_FETCH_TIMEOUT_S, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise DevKafkaError(f"mvn did not fetch Kafka {KAFKA_VERSION} in {_FETCH_TIMEOUT_S:.0f} s") from error
    if done.returncode != 0 or not any(jars.glob("kafka_*.jar")):
        said = "\n".join((done.stdout + done.stderr).strip().splitlines()[-15:])
        raise DevKafkaError(f"mvn could not fetch Kafka {KAFKA_VERSION} (exit {done.returncode}):\n{said}")
