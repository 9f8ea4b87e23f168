"""Shape of what the listener answers by itself, and of its limits."""

import dataclasses
import json

import pytest

from tidegate.gateway import refusals
from tidegate.gateway.refusals import Refusal, render
from tidegate.gateway.server_limits import ServerLimits

ALL = [value for value in vars(refusals).values() if isinstance(value, Refusal)]


def test_every_refusal_is_whole_http_that_closes() -> None:
    for refusal in ALL:
        head, _, body = render(refusal, b"/v1/chat/completions").partition(b"\r\n\r\n")
        lines = head.split(b"\r\n")
        assert lines[0].startswith(b"HTTP/1.1 %d " % refusal.status)
        assert any(line.startswith(b"connection: close") for line in lines)
        assert b"content-length: %d" % len(body) in lines
        assert json.loads(body)["error"]["code"] == refusal.code


def test_codes_are_unique() -> None:
    assert len({refusal.code for refusal in ALL}) == len(ALL)


def test_messages_answers_its_own_envelope() -> None:
    envelope = json.loads(refusals.refusal_body(refusals.MALFORMED, b"/v1/messages/count_tokens?beta=1"))
    assert envelope == {
        "type": "error",
        "error": {
            "type": "invalid_request_error",
            "code": "malformed_request",
            "message": refusals.MALFORMED.message,
        },
    }


def test_an_upgrade_refusal_names_what_is_spoken_here() -> None:
    assert b"upgrade: HTTP/1.1\r\nconnection: close, upgrade\r\n" in render(refusals.UPGRADE_REQUIRED)


def test_a_bodyless_refusal_keeps_its_length() -> None:
    raw = render(refusals.INTERNAL, bodyless=True)
    assert raw.endswith(b"\r\n\r\n")
    assert b"content-length: 0" not in raw


@pytest.mark.parametrize("name", [field.name for field in dataclasses.fields(ServerLimits)])
def test_a_limit_that_is_not_positive_is_refused_by_name(name: str) -> None:
    with pytest.raises(ValueError, match=name):
        ServerLimits(**{name: 0})
