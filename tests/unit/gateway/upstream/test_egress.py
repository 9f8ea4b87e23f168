"""Which addresses may be called: the table."""

import ipaddress

import httpx
import pytest

from tidegate.gateway.outbound import egress
from tidegate.gateway.outbound.faults import TargetInvalid
from tidegate.gateway.outbound.origin import Origin, OriginPolicy, address_refusal, parse_base, parse_target

PUBLIC = [
    "1.1.1.1",
    "8.8.8.8",
    "93.184.216.34",
    "100.63.255.255",
    "100.128.0.1",
    "172.15.255.255",
    "172.32.0.1",
    "192.167.255.255",
    "198.17.255.255",
    "223.255.255.254",
    "2606:4700:4700::1111",
    "2a00:1450:4001:81b::200e",
    "::ffff:8.8.8.8",
    "64:ff9b::8.8.8.8",
]
PRIVATE = [
    "10.0.0.1",
    "10.255.255.255",
    "100.64.0.1",
    "127.0.0.1",
    "127.255.255.254",
    "172.16.0.1",
    "172.31.255.255",
    "192.168.0.1",
    "192.168.255.255",
    "198.18.0.1",
    "::1",
    "fc00::1",
    "fd12:3456:789a::1",
    "::ffff:127.0.0.1",
    "::ffff:10.1.2.3",
    "::ffff:7f00:1",
    "64:ff9b::10.0.0.1",
    "64:ff9b::127.0.0.1",
]
NEVER = [
    "0.0.0.0",
    "0.1.2.3",
    "100.100.100.200",
    "168.63.129.16",
    "169.254.0.1",
    "169.254.169.254",
    "169.254.170.2",
    "192.0.0.192",
    "192.0.2.1",
    "192.88.99.1",
    "198.51.100.1",
    "203.0.113.1",
    "224.0.0.1",
    "239.255.255.255",
    "240.0.0.1",
    "255.255.255.255",
    "::",
    "::2",
    "::127.0.0.1",
    "::ffff:169.254.169.254",
    "::ffff:a9fe:a9fe",
    "::ffff:0.0.0.0",
    "64:ff9b::169.254.169.254",
    "64:ff9b:1::1",
    "100::1",
    "2001::1",
    "2001:db8::1",
    "2002:7f00:1::1",
    "2002:a9fe:a9fe::",
    "3fff::1",
    "4000::1",
    "fd00:ec2::254",
    "fd20:ce::254",
    "fe80::1",
    "fe80::1%eth0",
    "fec0::1",
    "ff02::1",
    "not an address",
    "",
    "0x7f.1",
]
DISGUISED = [
    "2130706433",
    "2852039166",
    "017700000001",
    "0x7f000001",
    "0x7F.0.0.1",
    "0177.0.0.1",
    "127.1",
    "127.0.1",
    "10.1",
    "0",
    "127.0.0.1.",
    "127.0.0.01",
    "1.2.3.4.5",
    "256.1.1.1",
    "example.0x10",
]
PLAIN_HOSTS = [
    "127.0.0.1",
    "255.255.255.255",
    "api.example.com",
    "localhost",
    "a1",
    "x.1a",
    "::1",
    "api.example.com.",
]
LOOSE = OriginPolicy(allow_private=True)


@pytest.mark.parametrize("address", PUBLIC)
def test_public_addresses_may_be_called(address: str) -> None:
    assert egress.address_refusal(address, allow_private=False) is None
    assert egress.address_refusal(address, allow_private=True) is None
    assert not egress.is_private(address)


@pytest.mark.parametrize("address", PRIVATE)
def test_private_addresses_need_permission(address: str) -> None:
    assert egress.address_refusal(address, allow_private=False) == "private or loopback address"
    assert egress.address_refusal(address, allow_private=True) is None


@pytest.mark.parametrize("address", NEVER)
def test_metadata_and_special_addresses_are_refused_whatever_the_config_says(address: str) -> None:
    assert egress.address_refusal(address, allow_private=False) is not None
    assert egress.address_refusal(address, allow_private=True) is not None


def test_without_permission_nothing_is_called_that_the_standard_library_does_not_think_global() -> None:
    for address in PUBLIC:
        parsed = ipaddress.ip_address(address)
        if isinstance(parsed, ipaddress.IPv4Address):
            assert parsed.is_global


@pytest.mark.parametrize("host", DISGUISED)
def test_hosts_that_are_addresses_in_disguise_are_refused(host: str) -> None:
    assert egress.host_refusal(host) is not None
    with pytest.raises(TargetInvalid):
        parse_target(f"https://{host}/v1", LOOSE)


@pytest.mark.parametrize("host", PLAIN_HOSTS)
def test_names_and_canonical_addresses_are_not_mistaken_for_disguises(host: str) -> None:
    assert egress.host_refusal(host) is None


@pytest.mark.parametrize(
    "url",
    [
        "ftp://api.example.com/",
        "ftp://api.example.com:443/",
        "https://api.example.com:0/",
        "https://a%2eb/",
        "api.example.com",
        "/v1",
        "https://",
        "https://user@api.example.com/",
        "https://user:key@api.example.com/",
        "https://api.example.com/#part",
        "https://api.example.com:99999/",
        "https://[::1",
        "https://[fe80::1%25eth0]/",
        "http://api.example.com/",
        "https://exa mple.com/",
    ],
)
def test_urls_that_hide_or_lack_something_are_refused(url: str) -> None:
    with pytest.raises(TargetInvalid) as caught:
        parse_target(url, OriginPolicy())
    assert "key" not in str(caught.value)


@pytest.mark.parametrize(
    "url",
    [
        "https://api.example.com/v1?x",
        "https://api.example.com/?",
        "https://api.example.com/v1#",
        "https://169.254.169.254/v1",
        "https://[fd00:ec2::254]/v1",
        "https://127.0.0.1/v1",
        "https://user:key@api.example.com/v1",
    ],
)
def test_a_base_url_that_no_call_can_use_is_refused(url: str) -> None:
    with pytest.raises(TargetInvalid) as caught:
        parse_base(url, OriginPolicy())
    assert "key" not in str(caught.value)


def test_a_base_url_gives_its_origin() -> None:
    assert parse_base("https://api.example.com/v1", OriginPolicy()) == Origin("https", "api.example.com", 443)
    assert parse_base("http://127.0.0.1:8000", LOOSE) == Origin("http", "127.0.0.1", 8000)
    with pytest.raises(TargetInvalid, match="metadata"):
        parse_base("http://100.100.100.200/", LOOSE)


def test_a_url_is_cut_into_origin_host_header_and_target() -> None:
    origin, host, target = parse_target("https://API.example.com:8443/v1/chat?api-version=2", OriginPolicy())
    assert origin == Origin("https", "api.example.com", 8443)
    assert (host, target) == (b"api.example.com:8443", b"/v1/chat?api-version=2")
    assert (
        parse_target(httpx.URL("https://[2606:4700::1111]/x"), OriginPolicy())[0].authority
        == b"[2606:4700::1111]:443"
    )
    assert parse_target("http://bücher.example/", LOOSE)[0].host == "xn--bcher-kva.example"


def test_plain_http_never_leaves_private_networks() -> None:
    plain = Origin("http", "own.example", 8000)
    assert address_refusal("10.0.0.1", plain, LOOSE) is None
    assert address_refusal("8.8.8.8", plain, LOOSE) == "plain http to a public address"
    assert address_refusal("8.8.8.8", Origin("https", "own.example", 443), LOOSE) is None
