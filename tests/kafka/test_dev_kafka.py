# mypy: untyped-calls-exclude=aiokafka
"""`run_dev_kafka`: the broker a developer starts by hand."""

import asyncio
import signal
import sys
from itertools import pairwise
from pathlib import Path

import pytest
from aiokafka.admin import AIOKafkaAdminClient

from support.kafka_clients import create_topic
from support.kafka_providers import Broker
from tidegate.runtime.kafka_dev.ports import free_ports

pytestmark = [pytest.mark.kafka, pytest.mark.slow]

PROGRAM = """
import pathlib, sys
from tidegate.runtime.kafka_dev.foreground import run_dev_kafka
from tidegate.runtime.kafka_dev.installation import from_environment
run_dev_kafka(1, pathlib.Path(sys.argv[1]), int(sys.argv[2]), places=from_environment(),
              say=lambda text: print(text, flush=True))
"""


async def test_it_prints_its_address_keeps_its_data_and_stops_cleanly(kafka: Broker, tmp_path: Path) -> None:
    kafka.require("restart")  # a Kafka can run on this machine
    port = first_of_two_free_ports()
    for first_run in (True, False):
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-c", PROGRAM, str(tmp_path), str(port), stdout=asyncio.subprocess.PIPE
        )
        assert process.stdout is not None
        address = f"127.0.0.1:{port}"
        while (await process.stdout.readline()).decode().strip() != address:
            assert not process.stdout.at_eof()
        if first_run:
            await create_topic(address, "kept")
        assert "kept" in await topics_of(address)
        process.send_signal(signal.SIGTERM if first_run else signal.SIGINT)
        assert (await process.stdout.read()).decode().splitlines() == ["stopped"]
        assert await process.wait() == 0


def first_of_two_free_ports() -> int:
    ports = sorted(port for node in free_ports(400) for port in (node.broker, node.controller))
    return next(lower for lower, upper in pairwise(ports) if upper == lower + 1)


async def topics_of(bootstrap: str) -> list[str]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap)
    await admin.start()
    try:
        return list(await admin.list_topics())
    finally:
        await admin.close()
