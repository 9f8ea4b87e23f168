"""The outbound client against raw sockets: names, addresses, proxies, TLS."""

import asyncio
import datetime as dt
import socket
import ssl
import threading

import pytest
import trustme

from support.loops import on_both_loops
from support.rawserver import Peer, RawServer, response
from support.upstream_calls import (
    MIB,
    OK,
    call,
    client,
    never_reads,
    play,
    play_then_close,
    read_all,
)
from tidegate.events.config import Deadlines
from tidegate.gateway.outbound.exchange import BUFFER_LIMIT_BYTES
from tidegate.gateway.outbound.faults import (
    ConnectFailed,
    ConnectionLost,
    EgressRefused,
    ResolveFailed,
    TargetInvalid,
    TlsFailed,
)
from tidegate.gateway.outbound.origin import OriginPolicy
from tidegate.gateway.outbound.tunnel import Proxy
from tidegate.gateway.upstream import Upstream


@on_both_loops
async def test_a_name_that_turns_private_is_refused_though_it_was_fine_before() -> None:
    answers = [["127.0.0.1"], ["169.254.169.254"], ["127.0.0.1", "fd00:ec2::254"]]

    def rebinding(host: str, port: int) -> list[str]:
        return answers.pop(0)

    async with (
        RawServer(play(response(b"ok", b"connection: close"))) as server,
        client(lookup=rebinding, dns_ttl_s=0.0) as upstream,
    ):
        url = f"http://api.example:{server.port}"
        assert await call(upstream, url) == (200, b"ok")
        with pytest.raises(EgressRefused) as caught:
            await call(upstream, url)
        assert (caught.value.phase, caught.value.request_bytes_written) == ("dns", False)
        assert await call(upstream, url) == (200, b"ok")
        assert len(server.peers) == 2


@on_both_loops
async def test_first_public_then_private_is_refused() -> None:
    answers = [["192.0.2.1"], ["10.0.0.1"], ["127.0.0.1"]]
    async with client(OriginPolicy(), lookup=lambda host, port: answers.pop(0), dns_ttl_s=0.0) as upstream:
        for _ in range(3):
            with pytest.raises(EgressRefused):
                await call(upstream, "https://api.example")


@on_both_loops
async def test_a_known_name_is_not_looked_up_again_within_its_ttl() -> None:
    looked_up = 0

    def counting(host: str, port: int) -> list[str]:
        nonlocal looked_up
        looked_up += 1
        return ["127.0.0.1"]

    async with (
        RawServer(play(response(b"ok", b"connection: close"))) as server,
        client(lookup=counting) as upstream,
    ):
        for _ in range(5):
            await call(upstream, f"http://api.example:{server.port}")
    assert looked_up == 1


@on_both_loops
async def test_a_dead_address_gives_way_to_the_next() -> None:
    async with (
        RawServer(play(response(b"ok"))) as server,
        client(lookup=lambda host, port: ["127.9.9.9", "::1", "127.0.0.1"]) as upstream,
    ):
        assert await call(upstream, f"http://api.example:{server.port}") == (200, b"ok")


@on_both_loops
async def test_a_name_without_address_fails_in_dns() -> None:
    def unknown(host: str, port: int) -> list[str]:
        raise socket.gaierror(-2, "Name or service not known")

    async with client(lookup=unknown) as upstream:
        with pytest.raises(ResolveFailed) as caught:
            await call(upstream, "http://api.example")
        assert (caught.value.phase, caught.value.request_bytes_written) == ("dns", False)


@on_both_loops
async def test_an_empty_answer_fails_in_dns() -> None:
    async with client(lookup=lambda host, port: []) as upstream:
        with pytest.raises(ResolveFailed, match="no address"):
            await call(upstream, "http://api.example")


@on_both_loops
async def test_a_hanging_resolver_ends_at_the_connect_deadline_and_blocks_nobody_else() -> None:
    may_answer = threading.Event()

    def hanging(host: str, port: int) -> list[str]:
        if host == "slow.example":
            may_answer.wait(20)
        return ["127.0.0.1"]

    async with RawServer(play(response(b"ok"))) as server, client(lookup=hanging) as upstream:
        slow = asyncio.ensure_future(
            call(upstream, f"http://slow.example:{server.port}", deadlines=Deadlines(connect_s=0.1))
        )
        assert await call(upstream, f"http://fast.example:{server.port}") == (200, b"ok")
        with pytest.raises(ResolveFailed) as caught:
            await slow
        assert caught.value.timed_out
        may_answer.set()


@pytest.mark.parametrize("host", ["127.0.0.1", "[::1]", "10.0.0.1", "169.254.169.254", "[fd00:ec2::254]"])
@on_both_loops
async def test_private_and_metadata_addresses_need_no_resolver_to_be_refused(host: str) -> None:
    async with client(OriginPolicy()) as upstream:
        with pytest.raises(EgressRefused) as caught:
            await call(upstream, f"https://{host}")
        assert not caught.value.request_bytes_written


@on_both_loops
async def test_a_proxy_is_asked_for_a_tunnel_to_the_named_host() -> None:
    async def proxy_script(peer: Peer) -> None:
        peer.requests.append(await peer.head())
        await peer.send(b"HTTP/1.1 200 Connection established\r\n\r\n")
        await peer.request()
        await peer.answer(b"through")
        await peer.gone()

    def never(host: str, port: int) -> list[str]:
        raise AssertionError("the proxy resolves the origin's name")

    async with RawServer(proxy_script) as server:
        proxy = Proxy.parse(f"http://127.0.0.1:{server.port}", "u:p")
        policy = OriginPolicy(allow_private=True, proxy=proxy)
        async with client(policy, lookup=never) as upstream:
            assert await call(upstream, "http://api.example:8000/v1") == (200, b"through")
        assert server.peers[0].requests[0] == (
            b"CONNECT api.example:8000 HTTP/1.1\r\nhost: api.example:8000\r\n"
            b"proxy-authorization: Basic dTpw\r\n\r\n"
        )
        assert b"proxy-authorization" not in server.peers[0].requests[1]


@pytest.mark.parametrize(
    "reply",
    [
        b"HTTP/1.1 407 Proxy Authentication Required\r\n\r\n",
        b"HTTP/1.1 200 OK\r\n\r\nearly",
        b"nonsense\r\n\r\n",
    ],
)
@on_both_loops
async def test_a_proxy_that_opens_no_tunnel_is_a_failed_connect(reply: bytes) -> None:
    async def proxy_script(peer: Peer) -> None:
        await peer.head()
        await peer.send(reply)
        await peer.gone()

    async with RawServer(proxy_script) as server:
        policy = OriginPolicy(proxy=Proxy.parse(f"http://127.0.0.1:{server.port}"))
        async with client(policy) as upstream:
            with pytest.raises(ConnectFailed) as caught:
                await call(upstream, "https://api.example/v1")
            assert (caught.value.phase, caught.value.request_bytes_written) == ("connect", False)
        await server.peers[0].over.wait()


@on_both_loops
async def test_a_proxy_that_stalls_or_closes_is_a_failed_connect() -> None:
    async def silent(peer: Peer) -> None:
        await peer.head()
        await peer.gone()

    async def closing(peer: Peer) -> None:
        await peer.head()

    async def resetting(peer: Peer) -> None:
        await peer.head()
        peer.reset()

    for script, timed_out in ((silent, True), (closing, False), (resetting, False)):
        async with RawServer(script) as server:
            policy = OriginPolicy(proxy=Proxy.parse(f"http://127.0.0.1:{server.port}"))
            async with client(policy) as upstream:
                with pytest.raises(ConnectFailed) as caught:
                    await call(upstream, "https://api.example/v1", deadlines=Deadlines(connect_s=0.2))
                assert caught.value.timed_out is timed_out


@on_both_loops
async def test_a_numeric_origin_is_refused_even_behind_a_proxy() -> None:
    async with RawServer(never_reads) as server:
        policy = OriginPolicy(allow_private=True, proxy=Proxy.parse(f"http://127.0.0.1:{server.port}"))
        async with client(policy) as upstream:
            with pytest.raises(EgressRefused):
                await call(upstream, "https://169.254.169.254/latest")
        assert server.peers == []


@pytest.fixture(scope="module")
def ca() -> trustme.CA:
    return trustme.CA()


@pytest.fixture(scope="module")
def ca_file(ca: trustme.CA, tmp_path_factory: pytest.TempPathFactory) -> str:
    path = tmp_path_factory.mktemp("ca") / "ca.pem"
    ca.cert_pem.write_to_path(str(path))
    return str(path)


def server_tls(certificate: trustme.LeafCert, alpn: str | None = "http/1.1") -> ssl.SSLContext:
    """A server context that speaks `alpn`."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    certificate.configure_cert(context)
    if alpn is not None:
        context.set_alpn_protocols([alpn])
    return context


def to_loopback(host: str, port: int) -> list[str]:
    """Every name is here."""
    return ["127.0.0.1"]


@pytest.mark.parametrize("alpn", ["http/1.1", None])
@on_both_loops
async def test_tls_verifies_names_the_host_and_reuses_the_connection(
    ca: trustme.CA, ca_file: str, alpn: str | None
) -> None:
    names: list[str] = []
    tls = server_tls(ca.issue_cert("api.example"), alpn)
    tls.sni_callback = lambda _, name, __: names.append(str(name))
    policy = OriginPolicy(allow_private=True, ca_file=ca_file)
    async with RawServer(play(response(b"ok")), tls=tls) as server:
        async with client(policy, lookup=to_loopback) as upstream:
            for _ in range(3):
                assert await call(upstream, f"https://api.example:{server.port}") == (200, b"ok")
        assert names == ["api.example"]
        assert len(server.peers) == 1


@on_both_loops
async def test_tls_to_a_numeric_host_is_verified_against_the_address(ca: trustme.CA, ca_file: str) -> None:
    policy = OriginPolicy(allow_private=True, ca_file=ca_file)
    async with (
        RawServer(play(response(b"ok")), tls=server_tls(ca.issue_cert("127.0.0.1"))) as server,
        client(policy) as upstream,
    ):
        assert await call(upstream, server.url) == (200, b"ok")


LONG_AGO = dt.datetime(2020, 1, 1, tzinfo=dt.UTC)


@pytest.mark.parametrize("fault", ["expired", "wrong host", "unknown authority"])
@on_both_loops
async def test_a_bad_certificate_fails_in_tls_and_nothing_is_sent(
    ca: trustme.CA, ca_file: str, fault: str
) -> None:
    certificate = {
        "expired": lambda: ca.issue_cert(
            "api.example", not_before=LONG_AGO, not_after=LONG_AGO + dt.timedelta(1)
        ),
        "wrong host": lambda: ca.issue_cert("other.example"),
        "unknown authority": lambda: trustme.CA().issue_cert("api.example"),
    }[fault]()
    policy = OriginPolicy(allow_private=True, ca_file=ca_file)
    async with RawServer(play(response(b"ok")), tls=server_tls(certificate)) as server:
        async with client(policy, lookup=to_loopback) as upstream:
            with pytest.raises(TlsFailed, match="certificate") as caught:
                await call(upstream, f"https://api.example:{server.port}")
            assert (caught.value.phase, caught.value.request_bytes_written) == ("tls", False)
        assert [peer.requests for peer in server.peers if peer.requests] == []


@on_both_loops
async def test_a_peer_that_does_not_speak_tls_or_stalls_or_resets_fails_in_tls() -> None:
    async def plain(peer: Peer) -> None:
        await peer.send(b"HTTP/1.1 400 Bad Request\r\n\r\n")

    async def reset(peer: Peer) -> None:
        peer.reset()

    for script, timed_out in ((plain, False), (reset, False), (never_reads, True)):
        async with RawServer(script) as server, client() as upstream:
            with pytest.raises(TlsFailed) as caught:
                await call(upstream, f"https://127.0.0.1:{server.port}", deadlines=Deadlines(connect_s=0.2))
            assert (caught.value.phase, caught.value.timed_out) == ("tls", timed_out)
            assert not caught.value.request_bytes_written


@on_both_loops
async def test_tls_through_a_proxy_is_verified_against_the_origin(ca: trustme.CA, ca_file: str) -> None:
    async with RawServer(play(response(b"ok")), tls=server_tls(ca.issue_cert("api.example"))) as origin:

        async def relay(peer: Peer) -> None:
            peer.requests.append(await peer.head())
            await peer.send(b"HTTP/1.1 200 OK\r\n\r\n")
            await peer.relay_to(origin.port)

        async with RawServer(relay) as server:
            proxy = Proxy.parse(f"http://127.0.0.1:{server.port}")
            policy = OriginPolicy(ca_file=ca_file, proxy=proxy)
            async with client(policy) as upstream:
                assert await call(upstream, "https://api.example/v1") == (200, b"ok")
                assert await call(upstream, "https://api.example/v1") == (200, b"ok")
                with pytest.raises(TlsFailed):
                    await call(upstream, "https://other.example/v1")
        assert len(server.peers) == 2


@on_both_loops
async def test_a_tls_stream_pauses_and_is_read_whole(ca: trustme.CA, ca_file: str) -> None:
    body = b"0123456789abcdef" * (8 * MIB // 16)
    policy = OriginPolicy(allow_private=True, ca_file=ca_file)
    tls = server_tls(ca.issue_cert("127.0.0.1"))
    async with RawServer(play_then_close(response(body)), tls=tls) as server, client(policy) as upstream:
        exchange = await upstream.send(upstream.prepare(server.url))
        while exchange.buffered_bytes <= BUFFER_LIMIT_BYTES:
            await asyncio.sleep(0.01)
        assert exchange.buffered_bytes < 8 * BUFFER_LIMIT_BYTES
        assert await read_all(exchange) == body


@pytest.mark.parametrize("ending", ["close", "reset"])
@on_both_loops
async def test_a_tls_stream_that_breaks_is_lost(ca: trustme.CA, ca_file: str, ending: str) -> None:
    async def script(peer: Peer) -> None:
        await peer.request()
        await peer.send(OK + b"content-length: 9\r\n\r\nhello")
        await go_on.wait()
        peer.reset() if ending == "reset" else peer.close()

    go_on = asyncio.Event()
    policy = OriginPolicy(allow_private=True, ca_file=ca_file)
    async with (
        RawServer(script, tls=server_tls(ca.issue_cert("127.0.0.1"))) as server,
        client(policy) as upstream,
    ):
        exchange = await upstream.send(upstream.prepare(server.url))
        assert await exchange.read() == b"hello"
        go_on.set()
        with pytest.raises(ConnectionLost):
            await exchange.read()


def test_a_ca_file_that_cannot_be_read_is_named_when_preparing() -> None:
    with pytest.raises(TargetInvalid, match="CA file"):
        Upstream().prepare("https://api.example", policy=OriginPolicy(ca_file="/nonexistent/ca.pem"))
