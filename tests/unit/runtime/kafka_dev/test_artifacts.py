"""Java and jars: what is found, and what is said when it is not."""

import stat
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest

from tidegate.runtime.kafka_dev.artifacts import ensure_jars, jars_folder, pom_xml
from tidegate.runtime.kafka_dev.errors import DevKafkaError
from tidegate.runtime.kafka_dev.java import Java, find_java, parse_settings

JAVA = Java(Path("/opt/java"), 17)


def fake_java(home: Path, version: str) -> Path:
    """A Java home whose `java` prints what a real one of that version would."""
    executable = home / "bin" / "java"
    executable.parent.mkdir(parents=True)
    says = f"    java.home = {home}\n    java.specification.version = {version}"
    executable.write_text(f"#!/bin/sh\necho '{says}' >&2\n")
    executable.chmod(executable.stat().st_mode | stat.S_IXUSR)
    return home


def fake_maven(folder: Path, script: str, monkeypatch: pytest.MonkeyPatch) -> None:
    folder.mkdir()
    (folder / "mvn").write_text(f"#!/bin/sh\n{script}\n")
    (folder / "mvn").chmod(0o755)
    monkeypatch.setenv("PATH", str(folder), prepend=":")


def test_the_project_names_artifacts_and_no_place_to_get_them_from() -> None:
    root = ET.fromstring(pom_xml())
    names = [element.text for element in root.iter("{http://maven.apache.org/POM/4.0.0}artifactId")]
    assert names == ["dev-kafka", "kafka_2.13", "slf4j-simple"]
    assert not [element for element in root.iter() if "repositor" in element.tag]


@pytest.mark.parametrize(("version", "major"), [("1.8", 8), ("17", 17), ("25", 25)])
def test_old_and_new_version_schemes_are_read(version: str, major: int) -> None:
    text = f"Property settings:\n    java.home = /opt/a b\n    java.specification.version = {version}\n"
    assert parse_settings(text) == Java(Path("/opt/a b"), major)


def test_a_program_that_is_no_java_is_not_taken_for_one() -> None:
    assert parse_settings("command not found") is None


def test_a_named_java_home_wins(tmp_path: Path) -> None:
    home = fake_java(tmp_path / "jdk", "21")
    assert find_java(home) == Java(home, 21)


def test_a_java_that_is_too_old_is_passed_over(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new = fake_java(tmp_path / "old", "11"), fake_java(tmp_path / "new", "17")
    monkeypatch.setenv("PATH", f"{new / 'bin'}:/bin:/usr/bin")
    assert find_java(old) == Java(new, 17)


def test_cached_jars_need_no_maven(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    jars_folder(tmp_path).mkdir()
    assert ensure_jars(tmp_path, JAVA) == jars_folder(tmp_path)


def test_without_maven_the_error_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(DevKafkaError, match="install Maven"):
        ensure_jars(tmp_path, JAVA)


def test_a_fetch_that_fails_leaves_no_half_filled_cache(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    fails_midway = (
        'for a; do case "$a" in -DoutputDirectory=*) d="${a#*=}";; esac; done\n'
        'mkdir -p "$d"; : > "$d/kafka_2.13.jar"; echo "no route to host"; exit 1'
    )
    fake_maven(tmp_path / "bin", fails_midway, monkeypatch)
    with pytest.raises(DevKafkaError, match="no route to host"):
        ensure_jars(tmp_path / "cache", JAVA)
    assert [path.name for path in (tmp_path / "cache").iterdir()] == [f"{jars_folder(tmp_path).name}.lock"]


def test_a_fetch_runs_once_and_hands_maven_our_java(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    succeeds = (
        'for a; do case "$a" in -DoutputDirectory=*) d="${a#*=}";; esac; done\n'
        'mkdir -p "$d"; echo "$JAVA_HOME" > "$d/kafka_2.13.jar"'
    )
    fake_maven(tmp_path / "bin", succeeds, monkeypatch)
    jars = ensure_jars(tmp_path / "cache", JAVA)
    assert (jars / "kafka_2.13.jar").read_text() == "/opt/java\n"
    fake_maven(tmp_path / "bin2", "exit 1", monkeypatch)
    assert ensure_jars(tmp_path / "cache", JAVA) == jars
