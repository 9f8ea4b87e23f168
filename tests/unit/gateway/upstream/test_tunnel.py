"""The CONNECT proxy: address, request, reply."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.gateway.outbound.faults import TargetInvalid
from tidegate.gateway.outbound.tunnel import (
    MAX_REPLY_BYTES,
    Proxy,
    TunnelRefused,
    TunnelReply,
    connect_request,
)


def test_a_proxy_url_gives_address_and_credential() -> None:
    proxy = Proxy.parse("http://us%40er:p%3Aw@proxy.internal:3128")
    assert (proxy.host, proxy.port) == ("proxy.internal", 3128)
    assert proxy.authorization == b"Basic dXNAZXI6cDp3"
    assert Proxy.parse("http://[::1]:8080/") == Proxy("::1", 8080)


def test_a_proxy_does_not_show_its_credential() -> None:
    assert "dXN" not in repr(Proxy.parse("http://user:pw@proxy.internal:3128"))


@pytest.mark.parametrize(
    "url",
    ["https://p:1", "socks5://p:1", "http://p", "http://:1", "http://p:x", "http://p:99999", "http://p:1/x", "p:1",
     "http://p:1?x", "http://0x7f.1:1", ""],
)  # fmt: skip
def test_other_proxy_urls_are_refused(url: str) -> None:
    with pytest.raises(TargetInvalid):
        Proxy.parse(url)


def test_the_connect_request_is_exact() -> None:
    assert connect_request(b"api.example.com:443", b"Basic eA==") == (
        b"CONNECT api.example.com:443 HTTP/1.1\r\nhost: api.example.com:443\r\nproxy-authorization: Basic eA==\r\n\r\n"
    )
    assert b"authorization" not in connect_request(b"h:1", None)


@given(st.integers(0, 60))
def test_a_tunnel_opens_however_the_reply_is_cut(cut: int) -> None:
    whole = b"HTTP/1.1 200 Connection established\r\nvia: p\r\n\r\n"
    reply = TunnelReply()
    assert reply.feed(whole[:cut] or whole[:1]) is (cut >= len(whole))
    if cut < len(whole):
        assert reply.feed(whole[max(cut, 1) :])


@pytest.mark.parametrize(
    "bytes_",
    [b"HTTP/1.1 407 Auth\r\n\r\n", b"HTTP/1.1 301 x\r\n\r\n", b"HTTP/1.1 100 x\r\n\r\n", b"HTTP/2 200 OK\r\n\r\n",
     b"SSH-2.0\r\n\r\n", b"HTTP/1.1 200 OK\r\n\r\nearly", b"HTTP/1.1 2000 OK\r\n\r\n", b"",
     b"x" * (MAX_REPLY_BYTES + 1)],
)  # fmt: skip
def test_any_other_reply_opens_nothing(bytes_: bytes) -> None:
    with pytest.raises(TunnelRefused):
        TunnelReply().feed(bytes_)
