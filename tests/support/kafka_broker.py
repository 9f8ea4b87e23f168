"""Pytest plugin: the broker that tests marked `kafka` talk to, and the truth about whether they ran."""

import logging
import os
from collections.abc import Callable, Generator
from contextlib import ExitStack
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path
from typing import NoReturn

import pytest

from support.kafka_providers import INSTALL_HINT, Broker, Choice, choose
from tidegate.runtime.kafka_dev.errors import DevKafkaError
from tidegate.runtime.kafka_dev.installation import from_environment

REQUIRE_VARIABLE = "TIDEGATE_REQUIRE_KAFKA"
MARKER_VARIABLE = "TIDEGATE_BROKER_MARKER"
"""A file that gets a line for each reason why a broker test did not run: `make test` ends with them."""


@dataclass
class BrokerSession:
    """The choice of this test run, and every reason for which a broker test did not run."""

    required: bool
    not_tested: list[str] = field(default_factory=list)

    @cached_property
    def choice(self) -> Choice:
        return choose(os.environ, from_environment())

    def header(self) -> str:
        if self.choice.providers:
            return f"kafka broker: {self.choice.providers[0].label}"
        what = "fail" if self.required else "are skipped"
        return f"kafka broker: none ({'; '.join(self.choice.unusable)}); broker tests {what}: {INSTALL_HINT}"

    def skip(self, reason: str) -> NoReturn:
        """Skip the calling test and remember why; where the broker is required, it fails."""
        raise self._ending(reason)

    def _ending(self, reason: str) -> BaseException:
        self.not_tested.append(reason)
        if self.required:
            return pytest.fail.Exception(f"{reason} ({REQUIRE_VARIABLE} is set)", pytrace=False)
        return pytest.skip.Exception(reason)

    def enter(self, stack: ExitStack, nodes: int, folder: Path) -> Broker:
        """A broker from the first provider that gives one; else the calling test is skipped or fails."""
        usable = [p for p in self.choice.providers if nodes == 1 or p.capabilities.multi_node]
        if self.choice.providers and not usable:
            self.skip(f"{self.choice.providers[0].label} cannot run {nodes} nodes")
        reasons = list(self.choice.unusable)
        for provider in usable:
            try:
                return stack.enter_context(provider.open(nodes, folder, self.skip))
            except DevKafkaError as error:
                reasons.append(f"{provider.label}: {error}")
        raise self._ending(f"no Kafka broker: {'; '.join(reasons)}. To have one: {INSTALL_HINT}")


_SESSION = pytest.StashKey[BrokerSession]()


def pytest_configure(config: pytest.Config) -> None:
    config.stash[_SESSION] = BrokerSession(required=os.environ.get(REQUIRE_VARIABLE) == "1")
    # aiokafka logs every refused connection of a broker that is down on purpose.
    logging.getLogger("aiokafka").setLevel(logging.CRITICAL)


def pytest_report_header(config: pytest.Config) -> str:
    return config.stash[_SESSION].header()


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    reasons = list(dict.fromkeys(terminalreporter.config.stash[_SESSION].not_tested))
    for reason in reasons:
        terminalreporter.write_line(f"BROKER NOT TESTED: {reason}", yellow=True)
    marker = os.environ.get(MARKER_VARIABLE)
    if marker and reasons:
        with Path(marker).open("a") as told:
            told.writelines(" ".join(reason.split()) + "\n" for reason in reasons)


@pytest.fixture(scope="session")
def kafka(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Generator[Broker]:
    """One node for the whole run. Names must be made unique with `prefix()`; a test that ends the node
    brings it back."""
    with ExitStack() as stack:
        session = request.config.stash[_SESSION]
        yield session.enter(stack, 1, tmp_path_factory.mktemp("kafka"))


@pytest.fixture
def kafka_cluster(
    request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory
) -> Generator[Callable[[int], Broker]]:
    """Call it with a number of nodes for a cluster of this test's own, to do with what it likes."""
    session = request.config.stash[_SESSION]
    with ExitStack() as stack:
        yield lambda nodes: session.enter(stack, nodes, tmp_path_factory.mktemp(f"kafka-{nodes}"))
