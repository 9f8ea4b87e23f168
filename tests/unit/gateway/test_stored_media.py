"""A file that only the provider has counts as what it is guessed to be, never as nothing, and the guess is told."""

from __future__ import annotations

from typing import Any

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.types import Dialect
from tidegate.gateway.bodies import parse_body
from tidegate.gateway.inline_data import MAX_LOOKS
from tidegate.gateway.remote_media import (
    ANTHROPIC_IMAGE_TOKENS,
    DOCUMENT_TOKENS,
    LOW_DETAIL_TOKENS,
    OPENAI_IMAGE_TOKENS,
)
from tidegate.gateway.stored_media import NONE, StoredMedia, stored_media

SOURCE = {"type": "file", "file_id": "file_011CNha8iCJcU1wXNR6q4V8w"}
PARTS: list[tuple[Dialect, dict[str, Any], int]] = [
    ("openai", {"type": "file", "file": {"file_id": "file-1"}}, DOCUMENT_TOKENS),
    ("anthropic", {"type": "image", "source": SOURCE}, ANTHROPIC_IMAGE_TOKENS),
    ("anthropic", {"type": "document", "source": SOURCE, "title": "tides"}, DOCUMENT_TOKENS),
    ("openai-responses", {"type": "input_file", "file_id": "file-1"}, DOCUMENT_TOKENS),
    ("openai-responses", {"type": "input_image", "file_id": "file-1", "detail": "auto"}, OPENAI_IMAGE_TOKENS),
    ("openai-responses", {"type": "input_image", "file_id": "file-1", "detail": "low"}, LOW_DETAIL_TOKENS),
]
ELSEWHERE: list[dict[str, Any]] = [
    {"type": "text", "text": 'the "file_id" of {"source":{"type":"file","file_id":"f"}}'},
    {"type": "tool_use", "id": "t", "name": "open", "input": {"file_id": "f"}},
    {"type": "container_upload", "file_id": "f"},
    {"type": "text", "text": '"file_id"'},
]


def turned(block: dict[str, Any]) -> dict[str, Any]:
    """The same with the fields of its objects the other way round."""
    return {k: turned(v) if isinstance(v, dict) else v for k, v in reversed(block.items())}


@pytest.mark.parametrize(("dialect", "part", "tokens"), PARTS)
@pytest.mark.parametrize("option", [None, orjson.OPT_INDENT_2])
@pytest.mark.parametrize("order", [dict, turned])
def test_each_kind_counts_as_its_like_that_is_fetched(
    dialect: Dialect, part: dict[str, Any], tokens: int, option: int | None, order: Any
) -> None:
    blob = orjson.dumps([{"type": "text", "text": "see"}, order(part), {"type": "text"}], option=option)
    assert stored_media(blob) == StoredMedia(1, tokens, documents=tokens == DOCUMENT_TOKENS)
    field = "input" if dialect == "openai-responses" else "messages"
    body = {"model": "m", field: [{"role": "user", "content": [order(part)] * 2}]}
    found = parse_body(orjson.dumps(body), dialect).measured()
    assert found.stored_files == 2
    assert 2 * tokens <= found.tokens <= 2 * tokens + 120


@given(st.lists(st.sampled_from([*PARTS, *(("openai", each, 0) for each in ELSEWHERE)]), max_size=8))
def test_every_part_is_counted_once_and_ids_elsewhere_are_text(parts: list[Any]) -> None:
    blob = orjson.dumps([part for _, part, _ in parts])
    counts = [tokens for _, _, tokens in parts if tokens]
    assert stored_media(blob) == StoredMedia(len(counts), sum(counts), counts.count(DOCUMENT_TOKENS))


@given(st.lists(st.sampled_from([b'"file_id"', b'"source"', b'"file"', b":", b'"', b"{", b"}", b"\\", b" "]), max_size=16))  # fmt: skip
def test_no_bytes_break_the_count(pieces: list[bytes]) -> None:
    found = stored_media(b"".join(pieces))
    assert (found.parts == 0) is (found.tokens == 0)


def test_a_conversation_without_files_has_none_and_decoys_cost_a_bounded_time() -> None:
    assert stored_media(b'[{"type":"text","text":"no file here"}]') == NONE
    decoys = b'[{"input":{"file_id":"f"}}' + b',{"input":{"file_id":"f"}}' * MAX_LOOKS
    assert stored_media(decoys) == NONE
    assert stored_media(b'[{"type":"input_file","file_id":"f"},' + decoys[1:]) == NONE
