"""Errors of a provider in the client's dialect."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from support.dialect_calls import CONTEXT
from tidegate.gateway.dialects import error_shape, translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.stream import TranslatedPhases
from tidegate.gateway.errors import GatewayError

BODIES = [
    {"error": {"message": "too long", "type": "invalid_request_error", "param": None, "code": "x"}},
    {"type": "error", "error": {"type": "invalid_request_error", "message": "too long"}},
    {"error": "too long"},
    {"message": "too long"},
    {"detail": "too long"},
    {"detail": [{"msg": "x"}], "title": "too long"},
    {"response": {"error": {"message": "too long"}}},
    [{"error": {"message": "too long"}}],
    {"errors": [5, {"message": "too long"}]},
    {"error": {}, "message": "too long"},
    "too long",
]


@pytest.mark.parametrize("body", BODIES)
def test_the_providers_words_reach_the_client_in_its_envelope(body: Any) -> None:
    data = json.dumps(body).encode()
    made = json.loads(translate.error("openai", "request_incompatible", 400, data))
    assert made["error"] == {
        "message": "too long",
        "type": "invalid_request_error",
        "param": None,
        "code": "request_incompatible",
    }
    assert json.loads(translate.error("openai-responses", "request_incompatible", 400, data)) == made
    made = json.loads(translate.error("anthropic", "request_incompatible", 400, data))
    assert made == {
        "type": "error",
        "error": {"type": "invalid_request_error", "message": "too long", "code": "request_incompatible"},
    }


@pytest.mark.parametrize(
    "data", [b"", b"<html>Bad gateway</html>", b"{}", b"5", b"null", b'{"error": {"message": 5}}', b"\xff"]
)
def test_without_words_the_client_is_told_so(data: bytes) -> None:
    made = json.loads(translate.error("anthropic", "upstream_unavailable", 502, data))
    assert made["error"]["message"] == "The upstream refused the request and gave no reason."


def test_the_words_are_bounded() -> None:
    assert len(error_shape.provider_message(json.dumps({"message": "x" * 10_000}).encode())) == 2000
    assert len(error_shape.provider_message(json.dumps("x" * 10_000).encode())) == 2000


JSON = st.recursive(
    st.none() | st.integers() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from(["error", "message", "errors", "detail"]), inner, max_size=3)
    ),
    max_leaves=10,
)


@given(JSON)
def test_any_body_has_a_message(body: Any) -> None:
    assert error_shape.provider_message(json.dumps(body).encode())


@pytest.mark.parametrize("client", ["openai", "anthropic", "openai-responses"])
def test_a_stream_that_breaks_says_so_in_its_dialect(client: Wire) -> None:
    phases = TranslatedPhases("anthropic" if client != "anthropic" else "openai", client, CONTEXT)
    event = phases.error_event(GatewayError("stream_truncated", "It broke."))
    assert event.endswith(b"\n\n")
    data = json.loads(event[event.index(b"data: ") + 6 :])
    assert data["error"]["message"] == "It broke."
    assert data["error"]["code"] == "stream_truncated"
    if client == "openai-responses":
        assert (data["type"], data["code"], data["sequence_number"]) == ("error", "stream_truncated", 0)
    assert event.startswith(b"event: error\n") == (client != "openai")
