"""What happens to a request before the planner: key, session, body."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.config import Key, Routing, Tenant
from tidegate.events.types import KeyId, RouteName, TenantId
from tidegate.gateway import credentials, errors, session
from tidegate.gateway.bodies import parse_body
from tidegate.gateway.errors import GatewayError


def directory(key: str, **options: object) -> credentials.KeyDirectory:
    tenant = Tenant(id=TenantId("acme"), routes=options.get("tenant_routes"))  # type: ignore[arg-type]
    return credentials.KeyDirectory(
        Routing(
            tenants=(tenant,),
            keys=(
                Key(
                    id=KeyId("k1"),
                    tenant=TenantId("acme"),
                    digest=credentials.key_digest(key),
                    routes=options.get("key_routes"),  # type: ignore[arg-type]
                ),
            ),
        )
    )


@given(st.binary(min_size=32, max_size=32), st.integers(0, 45))
def test_only_the_whole_key_is_known(secret: bytes, cut: int) -> None:
    key = credentials.key_text(secret)
    found = directory(key)
    assert found.find(key.encode()) is not None
    assert found.find(key[:cut].encode()) is None
    assert found.find(key.encode() + b"x") is None


def test_a_key_only_narrows_what_its_tenant_may_use() -> None:
    a, b = RouteName("a"), RouteName("b")
    who = directory("k", tenant_routes=(a,), key_routes=(a, b)).find(b"k")
    assert who is not None
    assert (who.may_use("a"), who.may_use("b")) == (True, False)
    free = directory("k").find(b"k")
    assert free is not None
    assert free.may_use("anything")


@pytest.mark.parametrize(
    ("headers", "expected"),
    [
        ([(b"authorization", b"Bearer abc")], b"abc"),
        ([(b"authorization", b"bearer abc ")], b"abc"),
        ([(b"x-api-key", b"abc")], b"abc"),
        ([(b"x-api-key", b"abc"), (b"authorization", b"Bearer abc")], b"abc"),
        ([(b"x-api-key", b"abc"), (b"authorization", b"Bearer other")], None),
        ([(b"authorization", b"Basic abc")], None),
        ([], None),
    ],
)
def test_the_presented_key_is_unambiguous(headers: list[tuple[bytes, bytes]], expected: bytes | None) -> None:
    assert credentials.presented_key(headers) == expected


def found_session(
    headers: Mapping[bytes, bytes],
    body: Mapping[str, object],
    first_user_message: bytes | None,
    request: str,
    data_key: bytes,
) -> session.Session:
    turns = [] if first_user_message is None else [{"role": "user", "content": first_user_message.decode()}]
    sent = orjson.dumps({"model": "a", "messages": turns, **body})
    return session.session_in_headers(headers, data_key) or session.session_in_body(
        parse_body(sent, "openai"), request, data_key
    )


def test_session_hints_are_taken_in_order_and_stored_only_as_digests() -> None:
    headers = {b"session-id": b"secret-hint", b"x-claude-code-session-id": b"other"}
    found = found_session(headers, {}, b"hello", "req", b"k" * 32)
    assert found.source == "x-claude-code-session-id"
    assert "other" not in found.id
    assert found == found_session({b"x-claude-code-session-id": b"other"}, {}, None, "req2", b"k" * 32)
    assert found.id != found_session(headers, {}, None, "req", b"j" * 32).id
    by_metadata = found_session(
        {}, {"metadata": {"user_id": "user_abc_account__session_77-88"}}, None, "req", b"k" * 32
    )
    assert by_metadata.source == "metadata.user_id"
    as_json = found_session(
        {}, {"metadata": {"user_id": orjson.dumps({"session_id": "77-88"}).decode()}}, None, "r", b"k" * 32
    )
    assert as_json.id == by_metadata.id
    assert found_session({}, {}, None, "req", b"k" * 32) == session.Session("req", "request")
    assert found_session({}, {}, b"hi", "req", b"k" * 32).source == "first_user_message"


def test_the_same_value_under_another_name_is_another_session() -> None:
    key = b"k" * 32
    one = found_session({b"session-id": b"x"}, {}, None, "r", key)
    two = found_session({}, {"prompt_cache_key": "x"}, None, "r", key)
    assert one.id != two.id


def body(**fields: object) -> bytes:
    # Not by orjson: a number may be larger than it writes, and none is bounded on its way here.
    whole = {"model": "fast", "messages": [{"role": "user", "content": "hi"}], **fields}
    return json.dumps(whole, separators=(",", ":")).encode()


def test_a_body_is_measured_not_kept() -> None:
    parsed = parse_body(body(max_tokens=7, max_completion_tokens=9, tools=[{"name": "t"}]), "openai")
    assert parsed.max_output_tokens == 9
    assert parsed.has_tools()
    assert not parsed.has_images()
    assert parsed.measured().tokens == -(
        -(len(b'[{"role":"user","content":"hi"}]') + len(b'[{"name":"t"}]')) // 4
    )
    assert parsed.first_user_message() == b'"hi"'


@pytest.mark.parametrize(
    ("raw", "says"),
    [
        (b"", "not valid JSON"),
        (b"{", "not valid JSON"),
        (b"[]", "Expected `object`"),
        (b"{}", "model"),
        (b'{"model":5,"messages":[]}', "model"),
        (b'{"model":"","messages":[]}', "must name a route"),
        (b'{"model":"a"}', "messages"),
        (b'{"model":"a","messages":{}}', "must be an array"),
        (body(max_tokens=0), "from 1 to"),
        (body(max_tokens=2**31), "from 1 to"),
        (body(max_completion_tokens=10**26), "max_completion_tokens|from 1 to"),
        (b'{"model":"a","messages":' + b"[" * 200_000, "nested too deep|not valid JSON"),
        (b'{"model":"a","metadata":' + b'{"a":' * 200_000, "nested too deep|not valid JSON"),
        (body(stream="yes"), "stream"),
        (b'{"model":"\xff","messages":[]}', "not valid JSON"),
    ],
)
def test_a_bad_body_is_refused_by_name(raw: bytes, says: str) -> None:
    with pytest.raises(GatewayError, match=says) as caught:
        parse_body(raw, "openai")
    assert caught.value.status == 400


@pytest.mark.parametrize("dialect", ["openai", "anthropic"])
def test_every_code_renders_in_both_dialects(dialect: errors.Dialect) -> None:
    for code, status in errors.STATUS.items():
        rendered = errors.render(GatewayError(code, "why", retry_after_s=0.2), dialect)
        parsed = orjson.loads(rendered.body)
        assert rendered.status == status
        assert parsed["error"]["code"] == code
        assert (parsed.get("type") == "error") == (dialect == "anthropic")
        assert b"retry-after: 1\r\n" in rendered.head
        event = errors.error_event(GatewayError(code, "why"), dialect)
        assert b"[DONE]" not in event
        assert event.endswith(b"\n\n")


def test_digests_are_of_the_whole_key() -> None:
    assert credentials.key_digest("abc") == "sha256:" + hashlib.sha256(b"abc").hexdigest()
