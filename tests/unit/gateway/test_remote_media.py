"""An image that is named by its URL counts as an image, not as the letters of its address."""

from __future__ import annotations

from typing import Any

import msgspec
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidegate.events.types import Dialect
from tidegate.gateway import remote_media as media
from tidegate.gateway.asks import shows_images
from tidegate.gateway.bodies import parse_body
from tidegate.gateway.inline_data import MAX_LOOKS, NONE, InlineData
from tidegate.gateway.remote_media import (
    ANTHROPIC_IMAGE_TOKENS,
    DOCUMENT_TOKENS,
    LOW_DETAIL_TOKENS,
    OPENAI_IMAGE_TOKENS,
    remote_media,
)

URL = "https://pictures.example/pier.png?" + "q" * 400
TEXT = {"type": "text", "text": "what is this?"}


def chat(**fields: str) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": URL, **fields}}


def messages(kind: str) -> dict[str, Any]:
    return {"type": kind, "source": {"type": "url", "url": URL}}


def turned(block: dict[str, Any]) -> dict[str, Any]:
    """The same with the fields of its objects the other way round."""
    return {k: turned(v) if isinstance(v, dict) else v for k, v in reversed(block.items())}


@pytest.mark.parametrize(
    ("dialect", "block", "tokens"),
    [
        ("openai", chat(), OPENAI_IMAGE_TOKENS),
        ("openai", chat(detail="high"), OPENAI_IMAGE_TOKENS),
        ("openai", turned(chat(detail="high")), OPENAI_IMAGE_TOKENS),
        ("openai", chat(detail="low"), LOW_DETAIL_TOKENS),
        ("openai", turned(chat(detail="low")), LOW_DETAIL_TOKENS),
        ("anthropic", messages("image"), ANTHROPIC_IMAGE_TOKENS),
        ("anthropic", turned(messages("image")), ANTHROPIC_IMAGE_TOKENS),
        ("anthropic", messages("document"), DOCUMENT_TOKENS),
        ("anthropic", turned(messages("document")), DOCUMENT_TOKENS),
        ("openai-responses", {"type": "input_image", "image_url": URL}, OPENAI_IMAGE_TOKENS),
        (
            "openai-responses",
            {"type": "input_image", "detail": "low", "image_url": URL},
            LOW_DETAIL_TOKENS,
        ),
        ("openai-responses", {"type": "input_file", "file_url": URL}, DOCUMENT_TOKENS),
    ],
)
@pytest.mark.parametrize("option", [None, orjson.OPT_INDENT_2])
def test_what_a_provider_fetches_counts_by_what_it_is_in_its_dialect(
    dialect: Dialect, block: dict[str, Any], tokens: int, option: int | None
) -> None:
    blob = orjson.dumps([TEXT, block, TEXT], option=option)
    assert remote_media(blob) == InlineData(len(URL), tokens, documents=tokens == DOCUMENT_TOKENS)
    field = "input" if dialect == "openai-responses" else "messages"
    body = {"model": "m", field: [{"role": "user", "content": [block, block]}]}
    counted = parse_body(orjson.dumps(body), dialect).measured().tokens
    assert 2 * tokens <= counted <= 2 * tokens + 100


@pytest.mark.parametrize(
    "block",
    [
        {"type": "text", "text": URL},
        {"type": "tool_use", "id": "t", "name": "fetch", "input": {"url": URL}},
        {"type": "text", "text": orjson.dumps(chat()).decode()},
        {"type": "search_result", "source": URL},
        {"type": "text", "text": 'he said "https'},
    ],
)
def test_an_address_elsewhere_is_text(block: dict[str, Any]) -> None:
    assert remote_media(orjson.dumps([block])).tokens == 0


def test_a_conversation_without_addresses_and_one_that_is_cut_have_none() -> None:
    assert remote_media(orjson.dumps([TEXT])) == NONE
    assert remote_media(b'{"image_url":"https://x.test') == NONE


def test_places_that_only_look_like_addresses_cost_a_bounded_time() -> None:
    decoys: list[Any] = [{"a": "http"}] * MAX_LOOKS
    assert remote_media(orjson.dumps([*decoys[1:], chat()])).tokens == OPENAI_IMAGE_TOKENS
    assert remote_media(orjson.dumps([*decoys, chat()])) == NONE


def plainly(blob: bytes) -> InlineData:
    """What `remote_media` finds, without its ways of seeing early that there is nothing to find."""
    size = tokens = documents = looks = 0
    at = blob.find(b'"http')
    while at >= 0 and looks < MAX_LOOKS and (end := blob.find(b'"', at + 1)) >= 0:
        looks += 1
        found = media._tokens_at(blob, at, end)
        size += found and end - at - 1
        tokens += found
        documents += found == DOCUMENT_TOKENS
        at = blob.find(b'"http', end)
    return InlineData(size, tokens, documents)


PIECES = [
    *(b'"image_url"', b'"file_url"', b'"url"', b'"source"', b'"document"', b'"detail":"low"', b'"type"'),
    *(b":", b" : ", b"\n", b"\t", b",", b"{", b"}", b"[", b"]", b'"', b"\\", b'\\"'),
    *(b'"http://a"', b'"https://b/c"', b'"http', b"url", b'"data:image/png;base64,AA=="', b"x" * 70),
]
BLOCKS = st.sampled_from(
    [chat(), chat(detail="low"), messages("image"), messages("document"), TEXT, {"text": f'see "{URL}"'}]
)


@given(st.lists(st.sampled_from(PIECES), max_size=24).map(b"".join))
def test_looking_no_further_than_needed_changes_no_count_whatever_the_bytes(blob: bytes) -> None:
    assert remote_media(blob) == plainly(blob)


@given(st.lists(BLOCKS, max_size=6), st.sampled_from([None, orjson.OPT_INDENT_2]))
def test_looking_no_further_than_needed_changes_no_count_of_a_conversation(
    blocks: list[Any], option: int | None
) -> None:
    blob = orjson.dumps(blocks, option=option)
    assert remote_media(blob) == plainly(blob)
    named = sum("url" in str(block.get("type")) or "source" in block for block in blocks)
    assert (remote_media(blob) == NONE) is (named == 0)


@given(st.lists(BLOCKS, max_size=4), st.booleans())
def test_whether_an_image_is_shown_is_seen_in_every_dialect(blocks: list[Any], stored: bool) -> None:
    shown: list[Any] = [{"type": "input_image", "file_id": "file-1", "detail": "auto"}] if stored else []
    turns = orjson.dumps([*blocks, *shown, {"type": "text", "text": "an image, \"image\", an 'input_image'"}])
    kinds = {block.get("type") for block in [*blocks, *shown]}
    assert shows_images(msgspec.Raw(turns)) is bool(kinds & {"image_url", "image", "input_image"})
