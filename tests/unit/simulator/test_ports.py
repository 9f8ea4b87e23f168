"""Ports that serve over TLS, refuse, or stall, and change their behaviour while running."""

import asyncio
import socket
import ssl
from pathlib import Path

import httpx
import pytest
import trustme

from tidegate.simulator.loading import load
from tidegate.simulator.server import RunningSimulator, start
from unit.simulator.conftest import Simulate
from unit.simulator.rig import chat, provider


async def connects(simulator: RunningSimulator, deadline_s: float = 0.3) -> bool:
    """Whether a connection completes within the deadline. Raises ConnectionRefusedError."""
    loop = asyncio.get_running_loop()
    with socket.socket() as sock:
        sock.setblocking(False)
        try:
            async with asyncio.timeout(deadline_s):
                await loop.sock_connect(sock, ("127.0.0.1", simulator.ports["p"]))
        except TimeoutError:
            return False
        return True


async def test_tls_is_spoken_with_the_configured_certificate(simulate: Simulate, tmp_path: Path) -> None:
    authority = trustme.CA()
    certificate = authority.issue_cert("localhost", "127.0.0.1")
    cert, key = tmp_path / "cert.pem", tmp_path / "key.pem"
    certificate.cert_chain_pems[0].write_to_path(cert)
    certificate.private_key_pem.write_to_path(key)
    simulator = await simulate(tls_cert=str(cert), tls_key=str(key))
    context = ssl.create_default_context()
    authority.configure_trust(context)
    assert simulator.base_url("p").startswith("https://")
    async with httpx.AsyncClient(verify=context, base_url=simulator.base_url("p"), timeout=10) as client:
        assert (await client.post("/v1/chat/completions", json=chat())).status_code == 200
        streamed = await client.post("/v1/chat/completions", json=chat(stream=True))
        assert streamed.text.endswith("data: [DONE]\n\n")
        with pytest.raises(httpx.TransportError):
            await client.post("/v1/chat/completions", json=chat(), headers={"x-sim-fault": "rst;byte=40"})
    async with httpx.AsyncClient(base_url=simulator.base_url("p"), timeout=10) as stranger:
        with pytest.raises(httpx.ConnectError):
            await stranger.get("/_sim/healthz")


async def test_a_refusing_port_refuses(simulate: Simulate) -> None:
    simulator = await simulate(mode="refuse")
    with pytest.raises(ConnectionRefusedError):
        await connects(simulator)


async def test_a_stalling_port_never_completes_a_connection(simulate: Simulate) -> None:
    assert not await connects(await simulate(mode="connect_stall"))


async def test_a_port_that_accepts_and_stalls_never_answers(simulate: Simulate) -> None:
    simulator = await simulate(mode="accept_stall")
    assert await connects(simulator)
    async with httpx.AsyncClient(timeout=httpx.Timeout(5, read=0.2)) as client:
        with pytest.raises(httpx.ReadTimeout):
            await client.get(simulator.base_url("p") + "/_sim/healthz")


async def test_the_mode_changes_on_the_same_port_and_resets_what_is_open(
    simulate: Simulate, http: httpx.AsyncClient
) -> None:
    simulator = await simulate()
    url, port = simulator.base_url("p") + "/v1/chat/completions", simulator.ports["p"]
    assert (await http.post(url, json=chat())).status_code == 200
    pending = asyncio.ensure_future(http.post(url, json=chat(), headers={"x-sim-fault": "header_stall"}))
    while len(simulator.engines["p"].log.lines) < 2:
        await asyncio.sleep(0)
    for mode in ("refuse", "connect_stall", "accept_stall", "refuse"):
        await simulator.set_mode("p", mode)  # type: ignore[arg-type]
    with pytest.raises(httpx.ReadError):
        await pending
    with pytest.raises(httpx.ConnectError):
        await http.post(url, json=chat())
    await simulator.set_mode("p", "normal")
    assert simulator.ports["p"] == port
    assert (await http.post(url, json=chat())).status_code == 200


async def test_a_port_that_is_taken_is_an_error_and_leaves_nothing_open() -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        config = load({"providers": [provider(), provider(id="q", port=taken.getsockname()[1])]})
        with pytest.raises(OSError, match="in use"):
            await start(config)


async def test_providers_are_apart(http: httpx.AsyncClient) -> None:
    simulator = await start(
        load({"providers": [provider(), provider(id="q", billing="flat", fee_nanousd=9)]})
    )
    try:
        await http.post(simulator.base_url("p") + "/v1/chat/completions", json=chat())
        bills = simulator.invoices()
        assert len(bills["p"]["lines"]) == 1
        assert (bills["q"]["lines"], bills["q"]["total_nanousd"]) == ([], 9)
    finally:
        await simulator.stop()
