"""Edits of a request body: one value changes, every other byte stays."""

from collections.abc import Callable, Iterator
from typing import Any

import orjson
import pytest
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

from support.around import joined
from tidegate.gateway import splice
from tidegate.gateway.splice import SpliceRefused


def rewritten(body: bytes, model: str, *, include_usage: bool) -> bytes:
    """The body as an upstream gets it."""
    before, after = splice.around_model(body, include_usage=include_usage)
    return before + orjson.dumps(model) + after


def with_model(body: bytes, model: str) -> bytes:
    return rewritten(body, model, include_usage=False)


def with_usage_included(body: bytes) -> bytes:
    """Only the usage edit: the model stays as the client spelled it."""
    plain = splice.around_model(body, include_usage=False)
    start, end = len(plain[0]), len(body) - len(plain[1])
    before, after = splice.around_model(body, include_usage=True)
    return before + body[start:end] + after


FAIR = settings(max_examples=30, deadline=None, suppress_health_check=[HealthCheck.too_slow])


@pytest.fixture(params=[0, splice.FIND_BELOW_BYTES], ids=["walk", "find"], autouse=True, scope="module")
def _way(request: pytest.FixtureRequest) -> Iterator[None]:
    """Every promise holds for both ways to find a name: that of large and that of small bodies."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(splice, "FIND_BELOW_BYTES", request.param)
        yield


TEXT = st.text(st.characters(codec="utf-8"), max_size=12) | st.sampled_from(
    [
        "model",
        '"model"',
        '\\"model\\":',
        "stream_options",
        "include_usage",
        "}",
        "{",
        "\\",
        "\u0000",
        "é",
        "😀",
    ]
)
JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**53), 2**53)
    | st.floats(allow_nan=False, allow_infinity=False)
    | TEXT,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(TEXT, inner, max_size=4),
    max_leaves=12,
)
SPACE = st.sampled_from(["", " ", "\n", "\t", "\r\n  "])


@st.composite
def spelled(draw: st.DrawFn, value: Any) -> str:
    """JSON text of a value with drawn white space and escapes."""
    if isinstance(value, dict):
        items = [
            f"{draw(SPACE)}{draw(spelled(name))}{draw(SPACE)}:{draw(SPACE)}{draw(spelled(part))}{draw(SPACE)}"
            for name, part in value.items()
        ]
        return "{" + ",".join(items) + draw(SPACE) + "}"
    if isinstance(value, list):
        return "[" + ",".join(draw(SPACE) + draw(spelled(part)) + draw(SPACE) for part in value) + "]"
    if isinstance(value, str):
        plain = orjson.dumps(value).decode()[1:-1]
        escapable = value and ord(value[0]) < 0x10000 and value[0] not in '\\"' and plain[0] == value[0]
        if escapable and draw(st.booleans()):
            plain = f"\\u{ord(value[0]):04x}" + plain[1:]
        return f'"{plain}"'
    return orjson.dumps(value).decode()


@st.composite
def bodies(draw: st.DrawFn) -> tuple[dict[str, Any], bytes]:
    fields: dict[str, Any] = draw(st.dictionaries(TEXT, JSON, max_size=5))
    fields.pop("stream_options", None)
    fields["model"] = draw(TEXT)
    if draw(st.booleans()):
        fields["stream_options"] = draw(st.none() | st.dictionaries(TEXT, JSON, max_size=3))
    order = draw(st.permutations(list(fields)))
    fields = {name: fields[name] for name in order}
    return fields, (draw(SPACE) + draw(spelled(fields)) + draw(SPACE)).encode()


@pytest.mark.slow
@FAIR
@given(bodies(), TEXT)
def test_only_the_top_level_model_changes(body: tuple[dict[str, Any], bytes], model: str) -> None:
    fields, raw = body
    edited = with_model(raw, model)
    assert orjson.loads(edited) == {**fields, "model": model}
    text = orjson.dumps(model)
    assert any(
        edited == raw[:at] + text + raw[end:]
        for at in range(len(raw))
        if raw[at : at + 1] == b'"'
        for end in [len(raw) - (len(edited) - at - len(text))]
        if end > at
    )


@pytest.mark.slow
@FAIR
@given(bodies())
def test_usage_is_included_and_all_else_stays(body: tuple[dict[str, Any], bytes]) -> None:
    fields, raw = body
    edited = with_usage_included(raw)
    options = {**(fields.get("stream_options") or {}), "include_usage": True}
    assert orjson.loads(edited) == {**fields, "stream_options": options}
    assert with_usage_included(edited) == edited


@pytest.mark.slow
@FAIR
@given(bodies(), TEXT)
def test_both_edits_at_once_are_both_edits_in_turn(body: tuple[dict[str, Any], bytes], model: str) -> None:
    _, raw = body
    assert rewritten(raw, model, include_usage=True) == with_usage_included(with_model(raw, model))
    assert rewritten(raw, model, include_usage=False) == with_model(raw, model)


@pytest.mark.slow
@FAIR
@given(bodies(), st.sampled_from(["model", "stream_options"]), st.data())
def test_an_edited_name_that_occurs_twice_is_refused(
    body: tuple[dict[str, Any], bytes], name: str, data: st.DataObject
) -> None:
    fields, raw = body
    if name not in fields:
        return
    twin = (
        data.draw(spelled(name)) + ":" + data.draw(spelled(data.draw(st.just(fields[name]) | JSON)))
    ).encode()
    start, last = raw.index(b"{") + 1, raw.rindex(b"}")
    for document in (raw[:start] + twin + b"," + raw[start:], raw[:last] + b"," + twin + raw[last:]):
        with pytest.raises(SpliceRefused):
            rewritten(document, "m", include_usage=True)


@pytest.mark.slow
@FAIR
@given(bodies(), TEXT, st.data())
def test_another_name_that_occurs_twice_never_moves_the_edit(
    body: tuple[dict[str, Any], bytes], name: str, data: st.DataObject
) -> None:
    fields, raw = body
    if name in fields:
        return
    start = raw.index(b"{") + 1
    twins = [f"{data.draw(spelled(name))}:{data.draw(spelled(data.draw(JSON)))},".encode() for _ in range(2)]
    document = raw[:start] + b"".join(twins) + raw[start:]
    try:
        edited = with_model(document, "m")
    except SpliceRefused:
        return
    assert orjson.loads(edited) == {**orjson.loads(document), "model": "m"}


@pytest.mark.slow
@FAIR
@given(JSON)
def test_any_json_is_edited_or_refused(value: Any) -> None:
    raw = orjson.dumps(value)
    try:
        edited = with_model(raw, "m")
    except SpliceRefused:
        assert not (isinstance(value, dict) and isinstance(value.get("model"), str))
    else:
        assert orjson.loads(edited) == {**value, "model": "m"}


@FAIR
@given(st.binary(max_size=60))
def test_hostile_bytes_are_refused_and_never_an_error(raw: bytes) -> None:
    for document in (raw, b'{"model":"' + raw + b'"}', b'{"model":"m",' + raw + b"}"):
        try:
            edited = rewritten(document, "m", include_usage=True)
        except SpliceRefused:
            continue
        if _is_utf8(document):  # the decoder skips strings without decoding them, and so do we
            assert orjson.loads(edited)["model"] == "m"


def _is_utf8(document: bytes) -> bool:
    try:
        document.decode()
    except UnicodeDecodeError:
        return False
    return True


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"[]",
        b'"model"',
        b"{}",
        b'{"model":1}',
        b'{"model":null}',
        b'{"model":{"model":"a"}}',
        b'{"model":"a"',
        b'{"model":"a"} x',
        b'\xef\xbb\xbf{"model":"a"}',
        b'{"model":"a","model":"a"}',
        b'{"model":"a","model":"bb"}',
        b'{"model":"a","mod\\u0065l":"b"}',
        b'{"a":1,"mod\\u0065l":"x","a":12}',
        b'{"a":12,"mod\\u0065l":"x","a":1}',
        b'{"mod\\u0065l":1,"model":"x"}',
        b'{"x":{"model":"y"}}',
        b"{" * 100_000,
    ],
)
def test_a_body_without_one_model_is_refused(body: bytes) -> None:
    with pytest.raises(SpliceRefused):
        with_model(body, "m")


@pytest.mark.parametrize("options", [b'"x"', b"[]", b"1", b"true", b'{"include_usage":1,"include_usage":2}'])
def test_stream_options_of_another_kind_are_refused(options: bytes) -> None:
    with pytest.raises(SpliceRefused):
        with_usage_included(b'{"model":"m","stream_options":' + options + b"}")


def test_an_escaped_name_is_the_same_name() -> None:
    assert (
        with_model(b'{"mod\\u0065l" : "a", "x":{"model":"b"}}', "c")
        == b'{"mod\\u0065l" : "c", "x":{"model":"b"}}'
    )


def test_a_model_with_quotes_stays_one_string() -> None:
    assert orjson.loads(with_model(b'{"model":"a"}', 'x","y":"z'))["model"] == 'x","y":"z'


@FAIR
@given(
    st.dictionaries(TEXT, JSON, max_size=4).flatmap(lambda rest: spelled({"model": "a-b", **rest})),
    st.booleans(),
)
def test_a_decoded_body_is_edited_as_one_that_nobody_looked_at(text: str, include_usage: bool) -> None:
    body = text.encode()
    assume(isinstance(orjson.loads(body).get("model"), str))

    def edited(edit: Callable[..., splice.Around]) -> splice.Around | None:
        try:
            return edit(body, include_usage=include_usage)
        except SpliceRefused:
            return None

    ours, plain = edited(splice.around_parsed_model), edited(splice.around_model)
    if include_usage and ours is not None and plain is not None:
        # The same edit; only where it lies, before or after the model, may differ in how it is cut.
        assert joined(ours, b"x") == joined(plain, b"x")
    else:
        assert ours == plain


@pytest.mark.parametrize("options", [b"null", b"{}", b'{"include_usage":false}', b'{ "other" : 1 }'])
def test_a_decoded_body_that_has_stream_options_already_gets_the_same_edit(options: bytes) -> None:
    body = b'{"model":"m","stream_options":' + options + b',"messages":[]}'
    edited = splice.around_parsed_model(body, include_usage=True)
    assert edited == splice.around_model(body, include_usage=True)
    assert orjson.loads(joined(edited, b'"m"'))["stream_options"]["include_usage"] is True


def test_a_walk_that_cannot_read_a_name_refuses() -> None:
    with pytest.raises(SpliceRefused):
        splice._walk(b"{1:2}", {})


@pytest.mark.parametrize("filler", ["", "x" * splice.COUNT_FROM_BYTES])
def test_a_body_with_more_names_than_any_dialect_has_is_refused(filler: str) -> None:
    def named(count: int) -> bytes:
        names = ",".join(f'"k{n}":1' for n in range(count - 3))
        return f'{{"model":"m","also":{{"model":1}},"filler":"{filler}",{names}}}'.encode()

    before, after = splice.around_model(named(splice.MAX_NAMES), include_usage=False)
    assert before == b'{"model":'
    assert after.startswith(b',"also"')
    with pytest.raises(splice.SpliceRefused, match="more than 1000 names"):
        splice.around_model(named(splice.MAX_NAMES + 1), include_usage=False)


def test_a_long_body_is_read_no_further_than_to_the_first_name_that_is_too_many() -> None:
    names = ",".join(f'"k{n}":1' for n in range(splice.MAX_NAMES))
    broken_behind = f'{{"model":"m",{names},'.encode() + b" " * splice.COUNT_FROM_BYTES
    with pytest.raises(splice.SpliceRefused, match="more than 1000 names"):
        splice.around_model(broken_behind, include_usage=False)


def test_a_long_body_that_is_no_object_is_told_as_such() -> None:
    with pytest.raises(splice.SpliceRefused, match="not a JSON object"):
        splice.around_model(b"[" + b" " * splice.COUNT_FROM_BYTES + b"]", include_usage=False)
