"""Which cache key a request has across dialects: of the tenant and the client's own, or else of the session."""

from __future__ import annotations

import json
from typing import Any

import orjson
import pytest

from tidegate.events.types import Dialect
from tidegate.gateway.bodies import parse_body
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.quirks import PLAIN, Quirks
from tidegate.gateway.session import MAX_HINT_BYTES, cache_key, tenant_key

MINE, THEIRS = tenant_key(b"k" * 32, "mine"), tenant_key(b"k" * 32, "theirs")
TURNS = [{"role": "user", "content": "hi"}]
BODIES: dict[Dialect, dict[str, Any]] = {
    "openai": {"model": "route", "messages": TURNS},
    "anthropic": {"model": "route", "max_tokens": 50, "messages": TURNS},
    "openai-responses": {"model": "route", "input": "hi"},
}


def key(session: str | None, tenant: bytes = MINE, dialect: Dialect = "openai", **fields: Any) -> str | None:
    return cache_key(parse_body(orjson.dumps(BODIES[dialect] | fields), dialect), session, tenant)


@pytest.mark.parametrize("dialect", ["openai", "openai-responses"])
def test_the_clients_own_key_counts_before_the_session_and_for_its_tenant_only(dialect: Dialect) -> None:
    mine = key("s", dialect=dialect, prompt_cache_key="k")
    assert mine not in {None, "s", "k"}
    assert key(None, dialect=dialect, prompt_cache_key="k") == mine
    assert key("s", dialect=dialect, prompt_cache_key="l") != mine
    assert key("s", THEIRS, dialect=dialect, prompt_cache_key="k") != mine


@pytest.mark.parametrize("given", [None, "", 7, {"a": 1}, "x" * MAX_HINT_BYTES])
def test_what_is_no_key_leaves_the_session_and_without_one_there_is_none(given: Any) -> None:
    assert key("s", prompt_cache_key=given) == "s"
    assert key(None, prompt_cache_key=given) is None


@pytest.mark.parametrize(
    ("client", "upstream", "quirks", "given", "made"),
    [
        ("anthropic", "openai-responses", PLAIN, None, "made"),
        ("anthropic", "openai", PLAIN, None, None),
        ("anthropic", "openai", Quirks(cache_key=True), None, "made"),
        ("openai", "openai-responses", PLAIN, None, "made"),
        ("openai", "openai-responses", PLAIN, "own", "made"),
        ("openai-responses", "openai", PLAIN, None, None),
        ("openai-responses", "openai", PLAIN, "own", "made"),
        ("openai-responses", "openai", Quirks(cache_key=True), None, "made"),
        ("openai", "openai", Quirks(cache_key=True), None, None),
        ("openai", "openai", PLAIN, "own", "own"),
        ("openai-responses", "openai-responses", PLAIN, "own", "own"),
    ],
)
def test_a_key_is_told_to_who_surely_takes_it_and_within_one_dialect_as_it_is(
    client: Wire, upstream: Wire, quirks: Quirks, given: str | None, made: str | None
) -> None:
    body = BODIES[client] | ({} if given is None else {"prompt_cache_key": given})
    sent = translate.request(client, upstream, body, model="m", quirks=quirks, cache_key="made")
    assert json.loads(sent.body).get("prompt_cache_key") == made
    assert sent.warnings == ()


def test_a_key_that_was_made_here_is_not_told_to_be_left_out() -> None:
    """Anthropic has no such field: only a client's own is missing there."""
    for client in ("openai", "openai-responses"):
        for given, warnings in ((None, ()), ("own", ("prompt_cache_key",))):
            body = BODIES[client] | ({} if given is None else {"prompt_cache_key": given})
            sent = translate.request(client, "anthropic", body, model="m", cache_key="made")
            assert (b"prompt_cache_key" in sent.body, sent.warnings) == (False, warnings)
