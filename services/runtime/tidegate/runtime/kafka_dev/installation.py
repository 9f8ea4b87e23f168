"""Where a development Kafka comes from on this machine: its Java, its jars."""

import os
from dataclasses import dataclass
from pathlib import Path

from tidegate.runtime.kafka_dev.artifacts import ensure_jars
from tidegate.runtime.kafka_dev.java import find_java
from tidegate.runtime.kafka_dev.process import Kafka


@dataclass(frozen=True, slots=True)
class Places:
    """The cache folder for jars, and the Java to prefer if the user named one."""

    cache_dir: Path
    java_home: Path | None = None


def from_environment() -> Places:
    """The places that XDG_CACHE_HOME and JAVA_HOME name, or the usual ones."""
    environment = os.environ  # noqa: TID251 - a developer's tool: its own two variables are not settings
    cache = environment.get("XDG_CACHE_HOME")
    java_home = environment.get("JAVA_HOME")
    return Places(
        cache_dir=(Path(cache) if cache else Path.home() / ".cache") / "tidegate",
        java_home=Path(java_home) if java_home else None,
    )


def install(places: Places) -> Kafka:
    """Find Java and the jars, fetching those when they are absent.

    Raises DevKafkaError that says what to install.
    """
    java = find_java(places.java_home)
    return Kafka(java=java, jars=ensure_jars(places.cache_dir, java))
