"""Images, documents and sound in a body count as what a model reads of them, never as their base64."""

from __future__ import annotations

import base64
import random
from typing import Any

import orjson
import pytest

from tidegate.events.types import Dialect
from tidegate.gateway.bodies import parse_body
from tidegate.gateway.inline_data import (
    IMAGE_TOKENS,
    MAX_LOOKS,
    NONE,
    PAGE_BYTES,
    PAGE_TOKENS,
    SOUND_BYTES_PER_TOKEN,
    InlineData,
    inline_data,
)

PNG = base64.b64encode(random.Random(7).randbytes(700_000)).decode()
TEXT = {"type": "text", "text": "what is this?"}


def source(**fields: str) -> dict[str, Any]:
    return {"type": "image", "source": {**fields}}


def anthropic_image(data: str = PNG) -> dict[str, Any]:
    return source(type="base64", media_type="image/png", data=data)


def chat_image(data: str = PNG) -> dict[str, Any]:
    return {"type": "image_url", "image_url": {"url": f"data:image/png;base64,{data}", "detail": "high"}}


def counted(dialect: Dialect, *blocks: Any) -> int:
    field = "input" if dialect == "openai-responses" else "messages"
    return (
        parse_body(orjson.dumps({"model": "m", field: [{"role": "user", "content": list(blocks)}]}), dialect)
        .measured()
        .tokens
    )


@pytest.mark.parametrize(
    ("dialect", "image"),
    [
        ("openai", chat_image()),
        ("anthropic", anthropic_image()),
        ("anthropic", source(data=PNG, media_type="image/png", type="base64")),
        ("anthropic", {"type": "tool_result", "tool_use_id": "t", "content": [anthropic_image()]}),
        ("openai-responses", {"type": "input_image", "image_url": f"data:image/png;base64,{PNG}"}),
    ],
)
def test_an_image_of_a_megabyte_counts_as_an_image_in_every_dialect(
    dialect: Dialect, image: dict[str, Any]
) -> None:
    beside = counted(dialect, TEXT, orjson.loads(orjson.dumps(image).replace(PNG.encode(), b"")))
    # Whatever an empty image counts for itself: one image is one image.
    assert IMAGE_TOKENS <= counted(dialect, TEXT, image) <= IMAGE_TOKENS + 80
    assert counted(dialect, TEXT, image) == beside
    assert counted(dialect, TEXT, image, image) >= 2 * IMAGE_TOKENS


def test_spaces_between_keys_and_escaped_slashes_change_nothing() -> None:
    pretty = orjson.dumps(anthropic_image("A/+="), option=orjson.OPT_INDENT_2).replace(b"/+", b"\\/+")
    assert inline_data(pretty) == InlineData(len("A\\/+="), IMAGE_TOKENS)
    url = b'{"url" : "data:image/png;charset=x;base64,AAAA"}'
    assert inline_data(url) == InlineData(4, IMAGE_TOKENS)


def test_documents_count_by_page_and_sound_by_its_length() -> None:
    pdf = "A" * (2 * PAGE_BYTES + 4)
    three_pages = InlineData(len(pdf), 3 * PAGE_TOKENS, documents=1)
    document = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": pdf},
    }
    assert inline_data(orjson.dumps([document])) == three_pages
    file = {"type": "file", "file": {"filename": "a", "file_data": f"data:application/pdf;base64,{pdf}"}}
    assert inline_data(orjson.dumps([file])) == three_pages
    heard = "A" * (5 * SOUND_BYTES_PER_TOKEN)
    audio = {"type": "input_audio", "input_audio": {"data": heard, "format": "wav"}}
    assert inline_data(orjson.dumps([audio])) == InlineData(len(heard), 5)


@pytest.mark.parametrize(
    "words",
    [
        {"type": "text", "text": f"data:image/png;base64,{PNG[:4000]}"},
        {"type": "text", "text": orjson.dumps(anthropic_image(PNG[:4000])).decode()},
        {"type": "text", "text": orjson.dumps(chat_image(PNG[:4000])).decode()},
        {"type": "tool_use", "id": "t", "name": "n", "input": {"data": PNG[:4000]}},
        {"type": "tool_use", "id": "t", "name": "n", "input": {"a": 1, "b": "x" * 200, "data": PNG[:4000]}},
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "word " * 999}},
        {"type": "image", "source": {"type": "base64", "data": "these are words, not base64 " * 99}},
        {"type": "text", "text": 'ends with "data'},
        {"type": "text", "text": "the database of data"},
    ],
)
def test_words_stay_words_also_where_they_look_like_an_image(words: dict[str, Any]) -> None:
    assert inline_data(orjson.dumps([words])) == NONE
    assert counted("anthropic", words) >= len(orjson.dumps(words)) // 4


def test_a_string_without_an_end_is_no_data() -> None:
    assert inline_data(b'{"type":"base64","data":"AAAA') == NONE
    assert inline_data(b'{"type":"base64","data":"AAAA"') == NONE


def test_two_images_and_words_between_are_told_apart() -> None:
    blob = orjson.dumps([anthropic_image("A" * 400), TEXT, chat_image("B" * 300), {"data": "C" * 99}])
    assert inline_data(blob) == InlineData(700, 2 * IMAGE_TOKENS)


def test_places_that_only_look_like_data_cost_a_bounded_time() -> None:
    decoys: list[Any] = [{"data": ""}] * MAX_LOOKS
    assert inline_data(orjson.dumps([*decoys[1:], anthropic_image("A" * 400)])).size_bytes == 400
    assert inline_data(orjson.dumps([*decoys, anthropic_image("A" * 400)])) == NONE
