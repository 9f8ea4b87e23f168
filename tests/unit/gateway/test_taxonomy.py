"""Causes of failures: the typed map, its refinements, and the blind spots older classifiers had."""

from __future__ import annotations

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.causes import consequence, says_of_target
from tidegate.gateway.taxonomy import MAX_READ, classify_answer, classify_event

NOW = 1_800_000_000_000_000_000


def openai(message: str = "", code: str | None = None, kind: str = "invalid_request_error") -> bytes:
    return orjson.dumps({"error": {"message": message, "type": kind, "param": None, "code": code}})


def anthropic(kind: str, message: str = "") -> bytes:
    return orjson.dumps({"type": "error", "error": {"type": kind, "message": message}})


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (
            429,
            anthropic("rate_limit_error", "Number of requests has exceeded your rate limit"),
            "rate_limited",
        ),
        (529, anthropic("overloaded_error", "Overloaded"), "unavailable"),
        (500, anthropic("api_error", "Internal server error"), "unavailable"),
        (504, anthropic("timeout_error", "Request timed out"), "unavailable"),
        (401, anthropic("authentication_error", "invalid x-api-key"), "auth"),
        (403, anthropic("billing_error", "payment failed"), "auth"),
        (400, anthropic("invalid_request_error", "messages: at least one is required"), "invalid_request"),
        (404, anthropic("not_found_error", "model: nope"), "invalid_request"),
        (413, anthropic("request_too_large", "Request exceeds the maximum size"), "invalid_request"),
        (403, anthropic("permission_error", "not allowed"), "unknown"),
        (403, anthropic("permission_error", "blocked by our usage policy"), "denied"),
        (429, openai("slow down", "rate_limit_exceeded", "requests"), "rate_limited"),
        (
            429,
            openai("You exceeded your current quota", "insufficient_quota", "insufficient_quota"),
            "quota_exhausted",
        ),
        (401, openai("Incorrect API key provided", "invalid_api_key"), "auth"),
        (400, openai("maximum context length is 8192", "context_length_exceeded"), "invalid_request"),
        (404, openai("The model does not exist", "model_not_found"), "invalid_request"),
        (400, openai("flagged", "content_policy_violation"), "denied"),
        (400, openai("Your prompt was rejected by our safety system"), "denied"),
        # blind spots of the reference classifier
        (503, b"Service Unavailable\nretry-after: 30", "unavailable"),
        (
            429,
            anthropic("rate_limit_error", "5-hour limit reached, resets 2027-01-15T09:00:00Z"),
            "quota_exhausted",
        ),
        (400, anthropic("invalid_request_error", "Your credit balance is too low"), "auth"),
        (502, b"<html>502 Bad Gateway</html>", "unavailable"),
        (418, b"", "unknown"),
        (500, b"", "unknown"),
        (400, b"no idea", "unknown"),
        (422, openai("validation", None, "something_new"), "invalid_request"),
    ],
)
def test_evidence_decides_the_cause(status: int, body: bytes, cause: str) -> None:
    failure = classify_answer(status, {}, body, NOW)
    assert failure.cause == cause, failure
    assert failure.status == status


TRIGGERS = (
    "billing", "payment required", "prepaid", "credit balance", "insufficient funds", "weekly limit", "5-hour limit",
    "usage quota", "quota exceeded", "exceeded your current quota", "rate limit", "too many requests", "unauthorized",
    "invalid api key", "authentication", "overloaded", "service unavailable", "internal server error",
    "Your credit balance is too low", "You have reached your weekly limit", "x' weekly limit 'y", "2027-02-01T00:00:00Z",
)  # fmt: skip
"""What a client could write where a provider quotes it."""
QUOTING = (
    "Invalid value: '{}'. Supported values are: 'system', 'assistant', and 'user'.",
    "messages.0.role: Input should be 'user' or 'assistant', got {}",
    "Unexpected value(s) `{}` for the `anthropic-beta` header.",
    'tools.0.name: "{}" does not match ^[a-zA-Z0-9_-]+$',
    "Unknown parameter: {}",
)


@given(
    st.sampled_from(TRIGGERS), st.sampled_from(QUOTING), st.sampled_from((400, 404, 413, 415, 422)),
    st.sampled_from(("openai", "openai param", "openai odd", "anthropic", "detail", "text")),
)  # fmt: skip
def test_what_a_provider_quotes_of_a_request_closes_nothing_for_the_others(
    trigger: str, quoting: str, status: int, shape: str
) -> None:
    said = quoting.format(trigger)
    body = {
        "openai": openai(said),
        "openai param": openai(said, "invalid_value").replace(b'"param":null', b'"param":"messages[0].role"'),
        "openai odd": openai(said, "what_is_this", "new_error"),
        "anthropic": anthropic("invalid_request_error", said),
        "detail": orjson.dumps({"detail": [{"loc": ["body"], "msg": said, "input": {"role": trigger}}]}),
        "text": said.encode(),
    }[shape]
    failure = classify_answer(status, {}, body, NOW)
    assert not says_of_target(failure.cause, failure.status), failure
    outcome = consequence(
        failure.cause, now_ns=NOW, repeats=5, reset_at_ns=failure.reset_at_ns, confidence=failure.confidence
    )
    assert outcome.scope == "none", failure


@pytest.mark.parametrize("quote", ['"{}"', "`{}`", "\u201c{}\u201d"])
@pytest.mark.parametrize("status", [429, 500, 503])
def test_a_quotation_of_any_length_says_nothing_of_the_target(quote: str, status: int) -> None:
    said = "No: " + quote.format("x " * (MAX_READ // 2 - 20) + "Your weekly limit is over. " * 9)
    assert len(said) > MAX_READ
    failure = classify_answer(status, {}, said.encode(), NOW)
    assert failure.cause != "quota_exhausted"
    assert failure.rule != "text_quota"


@pytest.mark.parametrize("unit", ["\u201c", '"', "`", "'", " '", "a'", "rate ", "your ", "5 hour "])
@pytest.mark.parametrize("typed", [False, True])
def test_words_of_any_length_are_looked_at_as_far_as_anything_is_said(unit: str, typed: bool) -> None:
    said = unit * 200_000
    body = openai(said, "rate_limit_exceeded") if typed else said.encode()
    cut = openai(said[:MAX_READ], "rate_limit_exceeded") if typed else said[:MAX_READ].encode()
    assert classify_answer(429, {}, body, NOW) == classify_answer(429, {}, cut, NOW)


@given(st.sampled_from(TRIGGERS), st.integers(500, 599))
def test_odd_words_of_a_server_close_a_target_for_minutes_and_no_pool(trigger: str, status: int) -> None:
    failure = classify_answer(status, {}, f"boom in {trigger}".encode(), NOW)
    outcome = consequence(
        failure.cause, now_ns=NOW, repeats=5, reset_at_ns=failure.reset_at_ns, confidence=failure.confidence
    )
    assert outcome.scope in {"none", "target"}
    assert outcome.operation != "target_disable"
    assert outcome.until_ns is None or outcome.until_ns <= NOW + 300 * 10**9


@pytest.mark.parametrize(
    ("status", "body", "cause"),
    [
        (400, anthropic("invalid_request_error", "Your credit balance is too low to access"), "auth"),
        (400, anthropic("invalid_request_error", "You have reached your specified API usage limits."), "quota_exhausted"),
        (429, openai("You've hit your weekly limit, it's over", "rate_limit_exceeded"), "quota_exhausted"),
        (429, b"You've hit your usage limit", "quota_exhausted"),
    ],
)  # fmt: skip
def test_what_a_provider_says_of_the_account_is_understood(status: int, body: bytes, cause: str) -> None:
    failure = classify_answer(status, {}, body, NOW)
    assert (failure.cause, failure.confidence) == (cause, "medium")


def test_a_refused_credential_is_no_matter_of_words() -> None:
    failure = classify_answer(401, {}, openai("Incorrect API key provided", None, "odd"), NOW)
    assert (failure.cause, failure.confidence) == ("auth", "high")


def test_a_status_alone_never_decides() -> None:
    causes = {
        classify_answer(status, {}, b"", NOW).cause for status in (400, 401, 402, 403, 404, 422, 429, 500)
    }
    assert causes == {"unknown"}


def test_reset_is_taken_from_the_spent_limit_only() -> None:
    headers = {
        "anthropic-ratelimit-requests-remaining": "40",
        "anthropic-ratelimit-requests-reset": "2027-01-15T08:00:10Z",
        "anthropic-ratelimit-tokens-remaining": "0",
        "anthropic-ratelimit-tokens-reset": "2027-01-15T08:30:00Z",
        "retry-after": "12",
    }
    failure = classify_answer(429, headers, anthropic("rate_limit_error", "tokens"), NOW)
    assert failure.retry_after_ms == 12_000
    assert failure.reset_at_ns == NOW + 30 * 60 * 1_000_000_000


def test_a_timestamp_of_the_past_in_a_message_is_no_reset() -> None:
    failure = classify_answer(429, {}, anthropic("rate_limit_error", "at 2020-01-01T00:00:00Z"), NOW)
    assert failure.reset_at_ns is None


@pytest.mark.parametrize(
    ("value", "expected_ms"),
    [
        ({"retry-after": "7"}, 7_000),
        ({"retry-after": "1.5"}, 1_500),
        ({"retry-after-ms": "250", "retry-after": "9"}, 250),
        ({"retry-after": "Fri, 15 Jan 2027 08:00:30 GMT"}, 30_000),
        ({"retry-after": "Fri, 15 Jan 2021 08:00:30 GMT"}, None),
        ({"retry-after": "soon"}, None),
        ({"retry-after": "-3"}, None),
        ({"retry-after": "1e12"}, None),
        ({"retry-after": "nan"}, None),
        ({}, None),
    ],
)
def test_retry_after_is_read_in_every_form(value: dict[str, str], expected_ms: int | None) -> None:
    assert classify_answer(503, value, b"overloaded", NOW).retry_after_ms == expected_ms


def test_error_events_in_streams_are_classified_by_their_content() -> None:
    failure = classify_event({"type": "error", "error": {"type": "overloaded_error", "message": "x"}}, NOW)
    assert (failure.cause, failure.phase) == ("unavailable", "mid_stream")
    assert classify_event({"error": "boom"}, NOW).cause == "unknown"


@given(st.integers(100, 599), st.binary(max_size=300))
def test_any_bytes_get_a_cause_and_never_an_exception(status: int, body: bytes) -> None:
    assert len(classify_answer(status, {}, body, NOW).message) <= 512


@given(st.integers(0, 700), st.booleans())
def test_no_part_of_a_concealed_word_survives_the_cut(before: int, typed: bool) -> None:
    key = "sk-live-0123456789abcdef"
    words = "x" * before + key
    answer = anthropic("rate_limit_error", words) if typed else words.encode()
    shown = classify_answer(
        429, {}, answer, NOW, conceal=lambda text: text.replace(key, "[credential]")
    ).message
    assert "sk-" not in shown
