"""What seldom comes and must be right all the same: odd hints, odd windows, odd resets, every kind of key."""

from __future__ import annotations

import orjson
import pytest
from msgspec import structs

from tidegate.events.config import DatedPrice, Key, Pool, Routing, Target, Tenant, Window
from tidegate.events.decision import WindowUse
from tidegate.events.money import FREE, ListPrice, Tokens
from tidegate.events.signals import AttemptStarted
from tidegate.events.types import AttemptId, KeyId, PoolId, RouteName, TargetId, TenantId, WindowId
from tidegate.gateway import asks, credentials, splice, timing
from tidegate.gateway.bodies import parse_body
from tidegate.gateway.errors import GatewayError
from tidegate.gateway.serving import ServedTarget
from tidegate.gateway.session import MAX_HINT_BYTES, MAX_METADATA_BYTES, Session, session_in_body
from tidegate.gateway.settlements import Ending, settle
from tidegate.gateway.taxonomy import classify_answer

NOW_NS = 1_800_000_000 * 10**9
DAY_NS = 24 * 3_600 * 10**9


# --- sessions


def body(messages: str) -> asks.Body:
    return parse_body(f'{{"model":"a","messages":{messages}}}'.encode(), "openai")


def test_a_conversation_without_a_user_has_no_first_message() -> None:
    assert body('[{"role":"system","content":"be brief"}]').first_user_message() is None
    assert body("[]").first_user_message() is None


@pytest.mark.parametrize("messages", ["[1]", '[{"role":5,"content":"x"}]', '["user"]'])
def test_messages_of_another_shape_are_the_clients_fault(messages: str) -> None:
    with pytest.raises(GatewayError, match="`messages`") as refused:
        body(messages).first_user_message()
    assert refused.value.code == "body_invalid"


def session_of(**hints: object) -> Session:
    sent = orjson.dumps({"model": "a", "messages": [], **hints})
    return session_in_body(parse_body(sent, "openai"), "r", b"k" * 32)


@pytest.mark.parametrize(
    "user",
    [
        '{"session_id": 5}',
        '{"session_id": ""}',
        "{broken",
        '["session_id"]',
        "{}",
        "user_session_",
        "plain",
        7,
    ],
)
def test_metadata_without_a_session_says_nothing_of_one(user: object) -> None:
    named = session_of(metadata={"user_id": user})
    for hint in ({"user_id": "a_session_b"}, {"user_id": '{"session_id":"b"}'}):
        assert session_of(metadata=hint).id != named.id


@pytest.mark.parametrize("metadata", [None, "text", ["user_id"], {}, {"user_id": None}])
def test_metadata_of_another_shape_leaves_the_request_its_own_session(metadata: object) -> None:
    found = session_of(metadata=metadata)
    assert (found.id, found.source) == ("r", "request")


@pytest.mark.parametrize(
    ("fits", "hint"),
    [
        (True, {"prompt_cache_key": "x" * (MAX_HINT_BYTES - 2)}),
        (False, {"prompt_cache_key": "x" * (MAX_HINT_BYTES - 1)}),
        (True, {"metadata": {"user_id": "_session_" + "x" * (MAX_HINT_BYTES - 11)}}),
        (False, {"metadata": {"user_id": "_session_" + "x" * (MAX_HINT_BYTES - 10)}}),
        (True, {"metadata": {"user_id": "_session_x", "more": "x" * (MAX_METADATA_BYTES - 100)}}),
        (False, {"metadata": {"user_id": "_session_x", "more": "x" * MAX_METADATA_BYTES}}),
    ],
)
def test_a_session_hint_longer_than_any_client_sends_is_none(*, fits: bool, hint: dict[str, object]) -> None:
    assert (session_of(**hint).source == next(iter(hint)).replace("metadata", "metadata.user_id")) is fits


def test_a_session_is_the_same_however_its_hint_is_spelled() -> None:
    spelled = b'{"model":"a","messages":[],"prompt_cache_key" :\n"\\u0073\xc3\xa9"}'
    found = session_in_body(parse_body(spelled, "openai"), "r", b"k" * 32)
    assert found.id == session_of(prompt_cache_key="sé").id


@pytest.mark.parametrize("hint", [b"1e400", b'{"user_id":1e400}', b'{"user_id":[]}', b"7"])
def test_a_hint_that_is_no_text_names_no_session(hint: bytes) -> None:
    sent = b'{"model":"a","messages":[],"prompt_cache_key":%b,"metadata":%b}' % (hint, hint)
    assert session_in_body(parse_body(sent, "openai"), "r", b"k" * 32).source == "request"


# --- keys


@pytest.mark.parametrize("length", [0, 31, 33])
def test_a_key_is_made_of_256_bits(length: int) -> None:
    with pytest.raises(ValueError, match="32 random bytes"):
        credentials.key_text(bytes(length))


@pytest.mark.parametrize(
    ("of_key", "of_tenant", "allowed"),
    [
        (None, None, {"a", "b", "c"}),
        (("a",), None, {"a"}),
        (None, ("b",), {"b"}),
        (("a", "b"), ("b", "c"), {"b"}),
        (("a",), ("c",), set()),
    ],
)
def test_a_key_only_narrows_what_its_tenant_may_use(
    of_key: tuple[str, ...] | None, of_tenant: tuple[str, ...] | None, allowed: set[str]
) -> None:
    def names(routes: tuple[str, ...] | None) -> tuple[RouteName, ...] | None:
        return None if routes is None else tuple(map(RouteName, routes))

    text = credentials.key_text(bytes(32))
    key = Key(id=KeyId("k"), tenant=TenantId("t"), digest=credentials.key_digest(text), routes=names(of_key))
    routing = Routing(tenants=(Tenant(id=TenantId("t"), routes=names(of_tenant)),), keys=(key,))
    principal = credentials.KeyDirectory(routing).find(text.encode())
    assert principal is not None
    assert {route for route in ("a", "b", "c") if principal.may_use(route)} == allowed


# --- settlements


def target() -> ServedTarget:
    config = Target(
        id=TargetId("t"),
        dialect="openai",
        base_url="https://api.example.test",
        model="m",
        pool=PoolId("p"),
        prices=(DatedPrice(input_uncached=3_000_000_000, output=15_000_000_000),),
    )
    window = Window(id=WindowId("kept"), unit="tokens", limit=10_000, duration_s=60)
    return ServedTarget(config, Pool(id=PoolId("p"), billing="flat", windows=(window,)), {})


def test_a_window_that_the_config_no_longer_has_is_charged_nothing() -> None:
    uses = tuple(WindowUse(WindowId(name), 1_000, 77, 60 * 10**9) for name in ("dropped", "kept"))
    started = AttemptStarted(
        attempt=AttemptId("a"),
        target=TargetId("t"),
        pool=PoolId("p"),
        route="r",
        index=0,
        input_tokens=1_000,
        reserve_output_tokens=500,
        price=FREE,
        windows=uses,
    )
    event = settle(
        started, Ending(outcome="completed", tokens=Tokens(input_uncached=10, output=3)), target(), FREE
    )
    assert [(use.window, use.units) for use in event.windows] == [("kept", 13)]


def test_output_that_was_told_is_charged_as_told_when_only_the_input_is_unknown() -> None:
    price = ListPrice(input_uncached=3_000_000_000, output=15_000_000_000)
    started = AttemptStarted(
        attempt=AttemptId("a"),
        target=TargetId("t"),
        pool=PoolId("p"),
        route="r",
        index=0,
        input_tokens=1_000,
        reserve_output_tokens=500,
        price=price,
    )
    event = settle(started, Ending(outcome="truncated", tokens=Tokens(output=3)), target(), price)
    assert (event.basis, event.tokens) == ("estimated", Tokens(output=3))
    assert event.cost_nanousd == 1_000 * 3_000 + 3 * 15_000


# --- edits


def test_stream_options_that_are_no_object_are_refused() -> None:
    for options in (b"5", b'"x"', b"[]", b"true"):
        with pytest.raises(splice.SpliceRefused, match="must be an object"):
            splice.around_model(b'{"model":"a","stream_options":%b}' % options, include_usage=True)


@pytest.mark.parametrize("second", [b"1", b"12", b'"x"'])
def test_a_name_twice_is_refused_even_where_one_value_begins_with_the_other(second: bytes) -> None:
    # Walked because of its size; the last value fits at the first place, but ends too early.
    filling = b'"filling":"%b"' % (b"x" * splice.FIND_BELOW_BYTES)
    whole = b'{"n":123,"n":%b,"model":"a",%b}' % (second, filling)
    with pytest.raises(splice.SpliceRefused, match="twice"):
        splice.around_model(whole, include_usage=False)


# --- resets


def test_a_duration_that_nobody_would_wait_for_is_no_reset() -> None:
    assert timing.reset_at_ns("9999h", NOW_NS) is None
    assert timing.reset_at_ns("6m0s", NOW_NS) == NOW_NS + 360 * 10**9


@pytest.mark.parametrize("text", [None, "", "later", "2020-01-01T00:00:00Z"])
def test_no_instant_that_lies_ahead_is_no_reset(text: str | None) -> None:
    assert timing.reset_at_ns(text, NOW_NS) is None


def test_an_instant_without_a_zone_is_utc() -> None:
    with_zone = timing.reset_at_ns("2027-01-16T08:00:00Z", NOW_NS)
    assert timing.reset_at_ns("2027-01-16T08:00:00", NOW_NS) == with_zone
    assert with_zone is not None


def test_an_instant_in_its_own_field_comes_before_all_others() -> None:
    error = b'{"error":{"type":"rate_limit_error","message":"until 2027-01-20T00:00:00Z","resets_at":"%b"}}'
    found = classify_answer(429, {}, error % b"2027-01-16T08:00:00Z", NOW_NS)
    assert found.reset_at_ns == timing.reset_at_ns("2027-01-16T08:00:00Z", NOW_NS)
    assert found.reset_at_ns is not None
    assert NOW_NS < found.reset_at_ns < NOW_NS + 32 * DAY_NS
    garbled = classify_answer(429, {}, error % b"soon", NOW_NS)
    assert garbled.reset_at_ns == timing.reset_at_ns("2027-01-20T00:00:00Z", NOW_NS)


def test_a_spent_limit_with_an_unreadable_reset_lets_the_next_one_speak() -> None:
    headers = {
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "later",
        "anthropic-ratelimit-requests-remaining": "0",
        "anthropic-ratelimit-requests-reset": "30s",
    }
    body = b'{"error":{"type":"rate_limit_error","message":"slow down"}}'
    assert classify_answer(429, headers, body, NOW_NS).reset_at_ns == NOW_NS + 30 * 10**9
    assert structs.asdict(classify_answer(429, {}, body, NOW_NS))["reset_at_ns"] is None
