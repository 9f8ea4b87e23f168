"""A broker that wants TLS and a password: reached as the config says, by every client of ours; refused otherwise."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Generator
from dataclasses import dataclass
from pathlib import Path

import pytest
import trustme
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from support.kafka_providers import Broker
from support.signals import records
from tidegate.events.errors import LogUnavailable
from tidegate.events.log.kafka import KafkaEventLog
from tidegate.events.log.kafka_admin import apply_topics, check_topics
from tidegate.events.log.port import Outgoing, TopicPartition
from tidegate.events.topics import CONTROL, SIGNALS
from tidegate.runtime import metrics
from tidegate.runtime.kafka_dev.cluster import KafkaCluster
from tidegate.runtime.kafka_dev.installation import from_environment, install
from tidegate.runtime.kafka_dev.ports import free_ports
from tidegate.runtime.machine import Machine
from tidegate.runtime.process import Stopping
from tidegate.runtime.roles.estimator import EstimatorRole
from tidegate.runtime.settings import parse_settings

# aiokafka drops a connection whose handshake failed without closing it: see `collected`.
pytestmark = [
    pytest.mark.kafka,
    pytest.mark.slow,
    pytest.mark.filterwarnings("ignore:unclosed:ResourceWarning"),
]
HOST = "127.0.0.1"
PASSWORD = "kafka-password"
JAAS = "org.apache.kafka.common.security.plain.PlainLoginModule required user_tidegate"


@dataclass(frozen=True)
class Secured:
    """A node with a third listener, which speaks TLS and asks for a password."""

    port: int
    ca_file: Path

    def machine(self, folder: Path, *, password: str = PASSWORD, ca_file: Path | None = None) -> Machine:
        text = f"""
data_dir = "data"
[log]
kind = "kafka"
bootstrap = "{HOST}:{self.port}"
tls = true
ca_file = "{ca_file or self.ca_file}"
sasl = "PLAIN"
username = "tidegate"
password = "env:KAFKA_PASSWORD"
"""
        return Machine(parse_settings(text), env={"KAFKA_PASSWORD": password}, base=folder)


@pytest.fixture(autouse=True)
def collected() -> Generator[None]:
    """What a test's client dropped is collected here, not in a later test that would be blamed for it."""
    yield
    gc.collect()


@pytest.fixture(scope="module")
def secured(kafka: Broker, tmp_path_factory: pytest.TempPathFactory) -> Generator[Secured]:
    kafka.require("restart")  # one that we may set up
    folder = tmp_path_factory.mktemp("secured")
    ca = trustme.CA()
    certificate = ca.issue_cert(HOST)
    key = load_pem_private_key(certificate.private_key_pem.bytes(), None)
    pem = key.private_bytes(Encoding.PEM, PrivateFormat.PKCS8, NoEncryption())
    (folder / "node.pem").write_bytes(pem + b"".join(c.bytes() for c in certificate.cert_chain_pems))
    ca.cert_pem.write_to_path(str(folder / "ca.pem"))
    ports, port = free_ports(1), free_ports(1)[0].broker
    listeners = f"PLAINTEXT://{HOST}:{ports[0].broker},CONTROLLER://{HOST}:{ports[0].controller},SECURE://{HOST}:{port}"
    extra = {
        "listeners": listeners,
        "advertised.listeners": listeners,
        "listener.security.protocol.map": "PLAINTEXT:PLAINTEXT,CONTROLLER:PLAINTEXT,SECURE:SASL_SSL",
        "listener.name.secure.sasl.enabled.mechanisms": "PLAIN",
        "listener.name.secure.plain.sasl.jaas.config": f'{JAAS}="{PASSWORD}";',
        "listener.name.secure.ssl.keystore.type": "PEM",
        "listener.name.secure.ssl.keystore.location": str(folder / "node.pem"),
    }
    with KafkaCluster(install(from_environment()), folder / "node", ports, extra) as cluster:
        try:
            yield Secured(port, folder / "ca.pem")
        finally:
            cluster.kill_all()


async def test_topics_records_and_transactions_go_through_tls_with_a_password(
    secured: Secured, tmp_path: Path
) -> None:
    settings = secured.machine(tmp_path).kafka_settings()
    assert await apply_topics(settings) == []
    assert await check_topics(settings) == []
    log = KafkaEventLog(settings)
    reader = None
    try:
        where = TopicPartition(SIGNALS.name, 3)
        start = await log.end(where)
        await log.append([Outgoing(*where, b"key", b"value")])
        await log.append([Outgoing(CONTROL.name, 0, b"k", b"newest")])
        reader = log.reader({where: start})
        async with asyncio.timeout(30):
            while not (found := await reader.poll(timeout_s=0.5)):
                pass
        assert [record.value for record in found] == [b"value"]
        latest, _ = await log.latest(CONTROL.name)
        value = latest[b"k"].value
        assert value == b"newest"
    finally:
        if reader is not None:
            await reader.close()
        await log.close()


@pytest.mark.parametrize("fault", ["password", "authority"])
async def test_a_wrong_password_or_an_unknown_authority_reaches_nothing(
    secured: Secured, tmp_path: Path, fault: str
) -> None:
    if fault == "password":
        machine = secured.machine(tmp_path, password="not-the-password")
    else:
        trustme.CA().cert_pem.write_to_path(str(tmp_path / "other.pem"))
        machine = secured.machine(tmp_path, ca_file=tmp_path / "other.pem")
    with pytest.raises(LogUnavailable) as caught:
        await check_topics(machine.kafka_settings())
    assert "not-the-password" not in str(caught.value)


async def test_the_faust_estimator_reads_there_too_and_shows_its_numbers(
    secured: Secured, tmp_path: Path
) -> None:
    machine = secured.machine(tmp_path)
    machine.make_folders()
    settings = machine.kafka_settings()
    await apply_topics(settings)
    log = KafkaEventLog(settings)
    stopping = Stopping()
    running = asyncio.ensure_future(EstimatorRole(machine, "faust").run(stopping))
    try:
        await log.append(records(200, pools=3))
        async with asyncio.timeout(90):
            while (await _applied(machine)) == 0:
                if running.done():
                    running.result()
                await asyncio.sleep(0.05)
    finally:
        stopping.event.set()
        await running
        await log.close()


async def _applied(machine: Machine) -> float:
    found = await metrics.collect(machine.run_dir)
    return found.get("estimator", {}).get("events_applied_total", 0.0)
