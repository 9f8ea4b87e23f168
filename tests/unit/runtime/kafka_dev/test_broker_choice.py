"""Which broker tests get, and that a run without one says so."""

import os
import socket
import subprocess
import sys
from pathlib import Path

import pytest

from support.kafka_providers import Capabilities, ExternalKafka, LocalKafka, choose, docker_answers
from tidegate.runtime.kafka_dev.artifacts import jars_folder
from tidegate.runtime.kafka_dev.installation import Places

NO_DOCKER = {"DOCKER_HOST": "unix:///nowhere/docker.sock"}
PROGRAM = "import pytest\n@pytest.mark.kafka\ndef test_it(kafka): pass\n"
CLUSTER_PROGRAM = "import pytest\n@pytest.mark.kafka\ndef test_it(kafka_cluster): kafka_cluster(3)\n"


@pytest.fixture
def java_home(tmp_path: Path) -> Path:
    executable = tmp_path / "jdk" / "bin" / "java"
    executable.parent.mkdir(parents=True)
    executable.write_text("#!/bin/sh\necho ' java.home = /opt/java\n java.specification.version = 17'\n")
    executable.chmod(0o755)
    return tmp_path / "jdk"


def test_a_broker_named_by_the_user_is_the_only_choice(tmp_path: Path) -> None:
    choice = choose({"TIDEGATE_TEST_KAFKA": "example:9092"}, Places(tmp_path))
    assert choice.providers == (ExternalKafka("example:9092"),)
    assert choice.providers[0].capabilities == Capabilities()


def test_cached_jars_come_before_containers(tmp_path: Path, java_home: Path) -> None:
    jars_folder(tmp_path).mkdir()
    with socket.socket(socket.AF_UNIX) as docker:
        docker.bind(str(tmp_path / "docker.sock"))
        docker.listen()
        choice = choose({"DOCKER_HOST": f"unix://{tmp_path}/docker.sock"}, Places(tmp_path, java_home))
    assert [type(p).__name__ for p in choice.providers] == ["LocalKafka", "ContainerKafka"]
    assert isinstance(choice.providers[0], LocalKafka)
    assert choice.providers[0].capabilities == Capabilities(multi_node=True, kill=True, restart=True)


def test_without_jars_or_maven_the_choice_says_what_is_missing(
    tmp_path: Path, java_home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))
    choice = choose(NO_DOCKER, Places(tmp_path, java_home))
    assert choice.providers == ()
    assert choice.unusable == ("no `mvn` on PATH to fetch Kafka's jars with", "Docker does not answer")


@pytest.mark.parametrize("address", ["unix:///nowhere", "tcp://127.0.0.1:1", "ssh://host"])
def test_a_silent_docker_is_not_chosen(address: str) -> None:
    assert not docker_answers(address)


def test_a_misspelt_capability_is_an_error() -> None:
    with pytest.raises(ValueError, match="no such capability: teleport"):
        Capabilities().lacking(("kill", "teleport"))


@pytest.mark.slow
@pytest.mark.parametrize("program", [PROGRAM, CLUSTER_PROGRAM], ids=["one node", "three nodes"])
def test_a_run_without_a_broker_skips_and_says_so(program: str, tmp_path: Path) -> None:
    code, output = run_without_broker(tmp_path, program, {})
    assert code == 0
    assert "kafka broker: none" in output
    assert "1 skipped" in output
    assert "BROKER NOT TESTED: no Kafka broker:" in output
    assert "install Java 17+ and Maven" in output


@pytest.mark.slow
def test_a_run_that_requires_a_broker_fails_without_one(tmp_path: Path) -> None:
    code, output = run_without_broker(tmp_path, PROGRAM, {"TIDEGATE_REQUIRE_KAFKA": "1"})
    assert code == 1
    assert "TIDEGATE_REQUIRE_KAFKA is set" in output


@pytest.mark.slow
def test_a_named_broker_that_is_down_is_not_replaced_by_another(tmp_path: Path) -> None:
    code, output = run_without_broker(tmp_path, PROGRAM, {"TIDEGATE_TEST_KAFKA": "127.0.0.1:1"})
    assert code == 0
    assert "BROKER NOT TESTED: no Kafka broker: the broker at 127.0.0.1:1" in output


def run_without_broker(folder: Path, program: str, variables: dict[str, str]) -> tuple[int, str]:
    """Run `program` under pytest where neither jars nor Maven nor Docker are to be found."""
    (folder / "test_program.py").write_text(program)
    (folder / "pytest.ini").write_text("[pytest]\nmarkers = kafka\n")
    tests = Path(__file__).parents[3]
    environment = {
        **{k: v for k, v in os.environ.items() if not k.startswith("TIDEGATE_")},
        **NO_DOCKER,
        "PATH": str(folder),
        "XDG_CACHE_HOME": str(folder / "cache"),
        "PYTHONPATH": os.pathsep.join([str(tests), *filter(None, [os.environ.get("PYTHONPATH")])]),
        **variables,
    }
    command = [sys.executable, "-m", "pytest", "-rs", "-p", "support.kafka_broker", "-p", "no:cacheprovider"]
    done = subprocess.run(
        [*command, "test_program.py"],
        cwd=folder,
        env=environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    return done.returncode, done.stdout + done.stderr
