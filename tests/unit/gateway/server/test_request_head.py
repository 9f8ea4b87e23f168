"""Which request heads pass, and as what."""

import httptools
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidegate.gateway import refusals
from tidegate.gateway.refusals import Refusal
from tidegate.gateway.request_head import Fields, RequestHead, read_head
from tidegate.gateway.server_limits import ServerLimits

FAIR = settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.too_slow])
LIMITS = ServerLimits()
HOST = (b"host", b"gateway.test:8080")


def read(
    *fields: tuple[bytes, bytes], target: bytes = b"/v1/models", method: bytes = b"GET", version: str = "1.1"
) -> RequestHead | Refusal:
    return read_head(method, version, target, [HOST, *fields], LIMITS)


def passed(
    *fields: tuple[bytes, bytes], target: bytes = b"/v1/models", method: bytes = b"GET"
) -> RequestHead:
    head = read(*fields, target=target, method=method)
    assert isinstance(head, RequestHead), head
    return head


def test_a_plain_head_passes_unchanged() -> None:
    head = passed((b"accept", b"*/*"), target=b"/v1/models?limit=3")
    assert (head.method, head.path, head.raw_path, head.query) == (
        "GET",
        "/v1/models",
        b"/v1/models",
        b"limit=3",
    )
    assert (head.content_length, head.chunked, head.expect_continue) == (0, False, False)
    assert head.fields == [HOST, (b"accept", b"*/*")]


def test_body_framing_is_read_once_and_exactly() -> None:
    assert passed((b"content-length", b"0012")).content_length == 12
    assert passed((b"transfer-encoding", b"Chunked")).chunked
    expecting = passed((b"content-length", b"3"), (b"expect", b"100-Continue"))
    assert expecting.expect_continue


@pytest.mark.parametrize(
    ("fields", "refusal"),
    [
        ([(b"content-length", b"3"), (b"transfer-encoding", b"chunked")], refusals.FRAMING_INVALID),
        ([(b"content-length", b"3"), (b"content-length", b"3")], refusals.FRAMING_INVALID),
        ([(b"content-length", b"3 ")], refusals.FRAMING_INVALID),
        ([(b"content-length", b"1" * 20)], refusals.FRAMING_INVALID),
        ([(b"transfer-encoding", b"gzip, chunked")], refusals.FRAMING_INVALID),
        ([(b"transfer-encoding", b"chunked"), (b"transfer-encoding", b"chunked")], refusals.FRAMING_INVALID),
        ([(b"content-length", b"33554433")], refusals.BODY_TOO_LARGE),
        ([(b"expect", b"x")], refusals.EXPECTATION_UNKNOWN),
        ([(b"expect", b"100-continue"), (b"expect", b"100-continue")], refusals.EXPECTATION_UNKNOWN),
        ([(b"host", b"gateway.test")], refusals.HOST_INVALID),
        ([(b"a", b"b")] * 100, refusals.TOO_MANY_FIELDS),
    ],
)
def test_framing_doubts_are_refused_without_relying_on_the_parser(fields: Fields, refusal: Refusal) -> None:
    assert read(*fields) == refusal


def test_a_1_0_client_may_send_a_length_but_no_coding_and_gets_no_continue() -> None:
    assert read((b"transfer-encoding", b"chunked"), version="1.0") == refusals.FRAMING_INVALID
    head = read((b"content-length", b"3"), (b"expect", b"100-continue"), version="1.0")
    assert isinstance(head, RequestHead)
    assert (head.content_length, head.expect_continue) == (3, False)


@pytest.mark.parametrize("version", ["0.9", "1.2", "2.0"])
def test_other_versions_are_refused(version: str) -> None:
    assert read(version=version) == refusals.VERSION_UNKNOWN


def test_a_forged_name_is_dropped_but_session_id_is_kept() -> None:
    head = passed((b"x_real_ip", b"1"), (b"session_id", b"s"), (b"x-real-ip", b"2"))
    assert head.fields == [HOST, (b"session_id", b"s"), (b"x-real-ip", b"2")]


def test_upgrade_is_required_away_only_for_get_responses() -> None:
    upgrade = (b"upgrade", b"websocket")
    assert read(upgrade, target=b"/v1/responses") == refusals.UPGRADE_REQUIRED
    assert passed(upgrade, target=b"/v1/responses", method=b"POST").path == "/v1/responses"
    assert passed(upgrade, target=b"/v1/models").path == "/v1/models"


@pytest.mark.parametrize(
    ("target", "path", "query"),
    [
        (b"http://gateway.test:8080/a?b", "/a", b"b"),
        (b"https://GATEWAY.test:8080", "/", b""),
        (b"http://gateway.test:8080?b=c", "/", b"b=c"),
        (b"/a%2Fb%3Fc", "/a/b?c", b""),
        (b"//a//b", "//a//b", b""),
        (b"/../a", "/../a", b""),
        (b"/%C3%A9", "/é", b""),
    ],
)
def test_targets_are_split_and_decoded_once(target: bytes, path: str, query: bytes) -> None:
    head = passed(target=target)
    assert (head.path, head.query) == (path, query)


@pytest.mark.parametrize(
    "target",
    [b"", b"*", b"a", b"http:", b"http://", b"http://gateway.test/", b"http://other.test:8080/", b"/a#b", b"/%00",
     b"http://u@gateway.test:8080/", b"http://gateway.test:8080/#f", b"ftp://gateway.test:8080/", b"/\xe9", b"/%7F"],
)  # fmt: skip
def test_other_targets_are_refused(target: bytes) -> None:
    assert read(target=target) == refusals.TARGET_INVALID


@FAIR
@given(st.lists(st.sampled_from([b"a", b"a.b:1", b"[::1]", b"a b", b"", b"a/", b"a@b", b"a:b"]), max_size=3))
def test_exactly_one_valid_host_passes(hosts: list[bytes]) -> None:
    head = read_head(b"GET", "1.1", b"/", [(b"host", host) for host in hosts], LIMITS)
    good = len(hosts) == 1 and hosts[0] in {b"a", b"a.b:1", b"[::1]"}
    assert isinstance(head, RequestHead) == good


class _Fields:
    def __init__(self) -> None:
        self.fields: Fields = []
        self.url = b""

    def on_url(self, url: bytes) -> None:
        self.url += url

    def on_header(self, name: bytes, value: bytes) -> None:
        self.fields.append((name.lower(), value))


@FAIR
@given(st.binary(max_size=80), st.binary(max_size=40))
def test_hostile_bytes_give_a_head_or_a_refusal_and_never_an_error(target: bytes, value: bytes) -> None:
    sink = _Fields()
    parser = httptools.HttpRequestParser(sink)
    try:
        parser.feed_data(b"GET /%b HTTP/1.1\r\nhost: a\r\nx: %b\r\n\r\n" % (target, value))
        version, method = parser.get_http_version(), parser.get_method()
    except (httptools.HttpParserError, httptools.HttpParserUpgrade):
        return
    for fields in (sink.fields, [(b"host", value)], [(b"host", b"a"), (b"content-length", value)]):
        assert isinstance(read_head(method, version, sink.url, fields, LIMITS), RequestHead | Refusal)
        assert isinstance(read_head(method, version, target, fields, LIMITS), RequestHead | Refusal)


def test_what_a_head_shows_of_itself_holds_no_value_of_a_field() -> None:
    head = read((b"authorization", b"Bearer canary"), target=b"/v1/messages?key=canary")
    assert isinstance(head, RequestHead)
    assert repr(head) == "RequestHead(GET '/v1/messages', 2 fields)"
