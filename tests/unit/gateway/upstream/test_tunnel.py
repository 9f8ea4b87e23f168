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


def test_a_proxy_is_its_url_and_a_credential_beside_it() -> None:
    proxy = Proxy.parse("http://proxy.internal:3128", "us@er:p:w")
    assert (proxy.host, proxy.port) == ("proxy.internal", 3128)
    assert proxy.authorization == b"Basic dXNAZXI6cDp3"
    assert Proxy.parse("http://[::1]:8080/") == Proxy("::1", 8080)


def test_a_proxy_does_not_show_its_credential() -> None:
    assert "dXN" not in repr(Proxy.parse("http://proxy.internal:3128", "user:pw"))


@pytest.mark.parametrize(
    "url",
    ["https://p:1", "socks5://p:1", "http://p", "http://:1", "http://p:x", "http://p:99999", "http://p:1/x", "p:1",
     "http://p:1?x", "http://0x7f.1:1", "", "http://p:0", "http://user:hunter2@p:1", "http://user@p:1", "http://@p:1",
     "http://:@p:1", "http://a b:1", "http://a%2eb:1", "http://169.254.169.254:80", "http://[fe80::1]:80"],
)  # fmt: skip
def test_other_proxy_urls_are_refused_and_not_repeated(url: str) -> None:
    with pytest.raises(TargetInvalid) as caught:
        Proxy.parse(url)
    assert "hunter2" not in str(caught.value)


def test_a_proxy_credential_without_a_colon_is_refused_and_not_repeated() -> None:
    with pytest.raises(TargetInvalid, match="user:password") as caught:
        Proxy.parse("http://p:1", "hunter2-hunter2")
    assert "hunter2" not in str(caught.value)


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
