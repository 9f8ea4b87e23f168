"""Documents that are put together of texts and pictures reach every vendor as parts, in their order."""

from __future__ import annotations

import base64
from typing import Any

import pytest

from support.dialect_calls import sent
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import RequestRefused
from tidegate.gateway.dialects.quirks import PLAIN, Quirks

C: Wire = "openai"
M: Wire = "anthropic"
R: Wire = "openai-responses"
SOURCE = {"type": "base64", "media_type": "image/png", "data": "AAAA"}
PICTURE = {"type": "image", "source": SOURCE}
SHOWN = {
    C: {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}},
    R: {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
}
PDF = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
FILE = {"filename": "t", "file_data": "data:application/pdf;base64,JVBERg=="}
FILED = {C: {"type": "file", "file": FILE}, R: {"type": "input_file", **FILE}}


def text(words: str, **more: Any) -> dict[str, Any]:
    return {"type": "text", "text": words, **more}


def document(content: Any, **more: Any) -> dict[str, Any]:
    return {"type": "document", "source": {"type": "content", "content": content}, **more}


def turns(upstream: Wire, *blocks: Any, quirks: Quirks = PLAIN, **fields: Any) -> tuple[Any, tuple[str, ...]]:
    made, warnings = sent(M, upstream, quirks, messages=[{"role": "user", "content": [*blocks]}], **fields)
    return made["input" if upstream == R else "messages"], warnings


def parts(upstream: Wire, *blocks: Any) -> Any:
    """What one message is made of, where nothing is left out."""
    (turn,), warnings = turns(upstream, *blocks)
    assert warnings == ()
    return turn["content"]


def words(upstream: Wire, said: str) -> dict[str, Any]:
    return text(said) if upstream == C else {"type": "input_text", "text": said}


MADE: list[tuple[dict[str, Any], list[Any]]] = [
    (document("a"), ["a"]),
    (document("a", title="t"), ["t\n\na"]),
    (document("a", title="t", context="c"), ["t\n\nc\n\na"]),
    (document([text("a"), text("b")], context="c"), ["c\n\na", "b"]),
    (document([text("a"), PICTURE, text("b")], title="t"), ["t\n\na", PICTURE, "b"]),
    (document([PICTURE, text("a")], title="t"), ["t", PICTURE, "a"]),
    (document([PICTURE, text("a")]), [PICTURE, "a"]),
    (document([], title="t"), ["t"]),
    (document([]), []),
    (document([text("a", citations=[])], citations={"enabled": False}), ["a"]),
    ({"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}, "title": "t", "context": "c"}, ["t\n\nc\n\na"]),
    ({"type": "document", "source": PDF, "title": "t", "context": "c"}, ["c", PDF]),
]  # fmt: skip


@pytest.mark.parametrize("upstream", [C, R])
@pytest.mark.parametrize(("block", "made"), MADE)
def test_a_document_becomes_its_texts_and_pictures_in_order(
    upstream: Wire, block: dict[str, Any], made: list[Any]
) -> None:
    """With what the client says of it before it; beside words of the client, and streamed or not."""
    expected = [
        words(upstream, each) if isinstance(each, str) else (FILED if each is PDF else SHOWN)[upstream]
        for each in made
    ]
    asked, after = words(upstream, "see"), words(upstream, "which?")
    assert parts(upstream, text("see"), block, text("which?")) == [asked, *expected, after]
    streamed, _ = turns(upstream, text("see"), block, text("which?"), stream=True)
    assert streamed[0]["content"] == [asked, *expected, after]


def test_one_text_alone_is_the_whole_content() -> None:
    assert turns(C, document("a", title="t")) == ([{"role": "user", "content": "t\n\na"}], ())


def test_what_a_tool_brought_may_be_such_a_document() -> None:
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "c", "name": "f", "input": {}}]}
    content = [text("found"), document([text("a"), PICTURE], title="t")]
    result = {"role": "user", "content": [{"type": "tool_result", "tool_use_id": "c", "content": content}]}
    made, warnings = sent(M, R, PLAIN, messages=[{"role": "user", "content": "q"}, call, result])
    assert warnings == ()
    assert made["input"][2]["output"] == [words(R, "found"), words(R, "t\n\na"), SHOWN[R]]
    made, _ = sent(M, C, PLAIN, messages=[{"role": "user", "content": "q"}, call, result])
    assert made["messages"][2:] == [
        {"role": "tool", "tool_call_id": "c", "content": "found"},
        {"role": "user", "content": [text("t\n\na"), SHOWN[C]]},
    ]


def test_cache_marks_stay_at_the_end_of_what_they_stood_at() -> None:
    short, long = {"type": "ephemeral"}, {"type": "ephemeral", "ttl": "1h"}
    block = document([text("a", cache_control=short), PICTURE, text("b")], cache_control=long)
    ((turn,), warnings) = turns(C, block, quirks=Quirks(cache_control=True))
    assert turn["content"] == [
        text("a", cache_control=short), SHOWN[C], text("b", cache_control=long),
    ]  # fmt: skip
    assert warnings == ()
    assert turns(R, block)[1] == ("cache_control",)


@pytest.mark.parametrize("upstream", [C, R])
def test_citations_that_are_asked_for_are_named_as_left_out(upstream: Wire) -> None:
    asked = {"citations": {"enabled": True}}
    for block in (
        document("a", **asked),
        {"type": "document", "source": {"type": "text", "media_type": "text/plain", "data": "a"}, **asked},
        {"type": "search_result", "title": "t", "source": "s", "content": [text("x")], **asked},
    ):
        assert turns(upstream, block)[1] == ("messages.content.citations",)


@pytest.mark.parametrize("upstream", [C, R])
@pytest.mark.parametrize(
    ("content", "field", "reason"),
    [
        (None, "content", "must be a string or a list"),
        (7, "content", "must be a string or a list"),
        ([7], "content[0]", "must be an object"),
        ([text("a"), {"type": "document"}], "content[1].type", "must be text or image"),
        ([{"type": "text"}], "content[0].text", "is missing"),
        ([{"type": "image", "source": {"type": "file", "file_id": "f"}}], "content[0].source.file_id", "a file stored"),
    ],
)  # fmt: skip
def test_what_no_document_can_hold_is_refused_by_name(
    upstream: Wire, content: Any, field: str, reason: str
) -> None:
    with pytest.raises(RequestRefused, match=reason) as refusal:
        turns(upstream, document(content))
    assert refusal.value.field == f"messages[0].content[0].source.{field}"


@pytest.mark.parametrize("upstream", [C, R])
def test_what_is_unknown_inside_is_named(upstream: Wire) -> None:
    block = document([text("a", odd=1), {**PICTURE, "strange": 1}], odder=1)
    assert turns(upstream, block)[1] == (
        "messages.content.odd", "messages.content.strange", "messages.content.odder",
    )  # fmt: skip


def test_a_picture_inside_is_refused_where_the_target_takes_one_string() -> None:
    quirks = Quirks(content_as_text=True)
    with pytest.raises(RequestRefused, match="takes text only"):
        turns(C, document([text("a"), PICTURE]), quirks=quirks)
    assert turns(C, document([text("a"), text("b")]), quirks=quirks)[0][0]["content"] == "a\n\nb"


def filed(client: Wire, media_type: str, data: str) -> tuple[Any, tuple[str, ...]]:
    """What Anthropic gets of a file that a client of OpenAI's dialects sends."""
    url = f"data:{media_type};base64,{data}"
    if client == "openai":
        part: dict[str, Any] = {"type": "file", "file": {"filename": "a", "file_data": url}}
        body, warnings = sent(client, "anthropic", messages=[{"role": "user", "content": [part]}])
    else:
        part = {"type": "input_file", "filename": "a", "file_data": url}
        body, warnings = sent(client, "anthropic", input=[{"role": "user", "content": [part]}])
    return body["messages"][0]["content"][0], warnings


@pytest.mark.parametrize("client", ["openai", "openai-responses"])
def test_a_file_becomes_a_source_that_anthropic_takes(client: Wire) -> None:
    """PDFs as base64, whatever is text as words: it takes no other base64."""
    pdf = {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}
    assert filed(client, "application/pdf", "JVBERg==") == (
        {"type": "document", "source": pdf, "title": "a"}, ()
    )  # fmt: skip
    for media_type in ("text/plain", "text/csv", "text/markdown", "application/json"):
        words = {"type": "text", "media_type": "text/plain", "data": "å, b"}
        data = base64.b64encode("å, b".encode()).decode()
        assert filed(client, media_type, data) == ({"type": "document", "source": words, "title": "a"}, ())


@pytest.mark.parametrize("client", ["openai", "openai-responses"])
@pytest.mark.parametrize(
    ("media_type", "data"),
    [("application/msword", "AAAA"), ("text/plain", "/w=="), ("text/plain", "no base64!"), ("", "AAAA")],
)
def test_a_file_that_anthropic_cannot_read_is_refused_by_name(
    client: Wire, media_type: str, data: str
) -> None:
    with pytest.raises(RequestRefused) as refused:
        filed(client, media_type, data)
    assert refused.value.field == "messages.content"
