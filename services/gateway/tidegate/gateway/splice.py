"""Edits of a JSON request body at parsed byte offsets: every other byte stays as the client sent it; pure."""

import re
from typing import cast

import msgspec

from tidegate.gateway.outbound.rest import Pieces

Span = tuple[int, int]
Edit = tuple[int, int, bytes]
Around = tuple[bytes, bytes] | tuple[Pieces, Pieces]
"""What stands before and after the value of `model`: copied where the body is short, else views of it."""
_Values = dict[str, msgspec.Raw]

_values = msgspec.json.Decoder(_Values)
_names = msgspec.json.Decoder(str)
_STRING = rb'("[^"\\]*+(?:\\.[^"\\]*+)*+")'
_COLON = re.compile(rb"[ \t\r\n]*+:[ \t\r\n]*+")
_KEY = re.compile(rb"[ \t\r\n]*+" + _STRING + _COLON.pattern)
_SIMPLE_VALUE = re.compile(_COLON.pattern + rb'("[^"\\]*+")')
_MODEL = b'"model"'
_OPTIONS = b'"stream_options"'
_NEXT = re.compile(rb"[ \t\r\n]*+([,}])")
_ESCAPED_LETTER = re.compile(rb"\\u00[567]")
_TWICE = "a name occurs twice"
FIND_BELOW_BYTES = 8192
"""Below, searching the document for one name is cheaper than walking all its top-level names."""


MAX_NAMES = 1_000
"""Names on one level of a document that is edited."""
VIEW_FROM_BYTES = 262_144
"""From here on a body is not copied to be edited: it is sent from where it lies."""
COUNT_FROM_BYTES = 131_072
"""From here on, names are counted while they are read: a shorter document cannot hold enough to matter."""
_TOO_MANY = f"more than {MAX_NAMES} names on one level"


class _Name(str):
    """A name that is counted."""

    __slots__ = ()


class SpliceRefused(ValueError):
    """The body cannot be edited safely; the text says why and is safe to show."""


def around_model(body: bytes, *, include_usage: bool) -> tuple[bytes, bytes]:
    """What stands before and after the value of `model`, the usage edit done: one scan serves every target.

    `model` or `stream_options` twice on the top level (or `include_usage` within) is refused: two readers of
    such a body may each see another value. Raises SpliceRefused.
    """
    values, start, end = _model_in(body)
    if not include_usage:
        return body[:start], body[end:]
    from_, to, text = _usage_edit(body, values)
    if from_ < start:
        return b"%b%b%b" % (body[:from_], text, body[to:start]), body[end:]
    return body[:start], b"%b%b%b" % (body[end:from_], text, body[to:])


def pieces_around_model(body: bytes, *, include_usage: bool) -> tuple[Pieces, Pieces]:
    """As `around_model`, in views of `body`."""
    values, start, end = _model_in(body)
    view = memoryview(body)
    if not include_usage:
        return (view[:start],), (view[end:],)
    from_, to, text = _usage_edit(body, values)
    if from_ < start:
        return (view[:from_], text, view[to:start]), (view[end:],)
    return (view[:start],), (view[end:from_], text, view[to:])


def around_parsed_model(body: bytes, *, include_usage: bool) -> Around:
    """As `around_model`, for a body already decoded as a JSON object with a string `model` on its top level; a long
    one is not copied."""
    if len(body) >= VIEW_FROM_BYTES:
        return pieces_around_model(body, include_usage=include_usage)
    plain = _around_plain(body, include_usage=include_usage) if len(body) < FIND_BELOW_BYTES else None
    return around_model(body, include_usage=include_usage) if plain is None else plain


def filled(around: Around, model: bytes) -> bytes | Pieces:
    """The document with this value of `model`."""
    before, after = around
    if isinstance(before, bytes) and isinstance(after, bytes):
        return b"%b%b%b" % (before, model, after)
    return (*cast("Pieces", before), model, *cast("Pieces", after))


def _model_in(body: bytes) -> tuple[_Values, int, int]:
    """The raw values of a body, and where the value of `model` begins and ends."""
    values = _decode(body)
    value = values.get("model")
    if value is None or memoryview(value)[0] != 0x22:
        raise SpliceRefused("`model` must be a string")
    return values, *_locate(body, values, "model")


def _around_plain(body: bytes, *, include_usage: bool) -> tuple[bytes, bytes] | None:
    """The usual body: one `model`, no escapes in its value, no `stream_options` yet. None: look closer.

    For why this is the place, see `_locate`.
    """
    at = body.find(_MODEL)
    found = _SIMPLE_VALUE.match(body, at + len(_MODEL)) if at >= 0 else None
    if found is None or body.find(_MODEL, at + 1) >= 0 or _has_escaped_letter(body):
        return None
    if not include_usage:
        return body[: found.start(1)], body[found.end() :]
    if _OPTIONS in body:
        return None
    end = body.rindex(b"}")
    return body[: found.start(1)], b'%b,"stream_options":{"include_usage":true}}%b' % (
        body[found.end() : end],
        body[end + 1 :],
    )


def _usage_edit(body: bytes, values: _Values) -> Edit:
    """The edit that makes `stream_options.include_usage` true."""
    if "stream_options" not in values:
        at = body.rindex(b"}")
        return at, at, (b"," if values else b"") + b'"stream_options":{"include_usage":true}'
    start, end = _locate(body, values, "stream_options")
    options = body[start:end]
    if options == b"null":
        return start, end, b'{"include_usage":true}'
    if options[:1] != b"{":
        raise SpliceRefused("`stream_options` must be an object")
    inner = _decode(options)
    if "include_usage" not in inner:
        return start + 1, start + 1, b'"include_usage":true' + (b"," if inner else b"")
    value = _locate(options, inner, "include_usage")
    return start + value[0], start + value[1], b"true"


def _decode(document: bytes) -> _Values:
    """Raw values of a JSON object by name, found at C speed; of equal names the last.

    Raises SpliceRefused for more names than any dialect has: walking them holds up everybody else.
    """
    try:
        values = _values.decode(document) if len(document) < COUNT_FROM_BYTES else _counted(document)
        if len(values) > MAX_NAMES:
            raise SpliceRefused(_TOO_MANY)
        return values
    except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
        raise SpliceRefused("the body is not a JSON object") from error


def _counted(document: bytes) -> _Values:
    """The same, giving up at the first name that is too many."""
    count = 0

    def name(kind: type[_Name], text: str) -> _Name:
        nonlocal count
        count += 1
        if count > MAX_NAMES:
            raise SpliceRefused(_TOO_MANY)
        return kind(text)

    try:
        return cast("_Values", msgspec.json.decode(document, type=dict[_Name, msgspec.Raw], dec_hook=name))
    except msgspec.ValidationError as error:
        raise (error.__cause__ if isinstance(error.__cause__, SpliceRefused) else error) from None


def _locate(document: bytes, values: _Values, name: str) -> Span:
    """Byte span of the value of a top-level name that `values` has.

    A name in quotes cannot occur inside a JSON string (there its quotes are escaped). So when the document
    has it exactly once, and no letter is spelled as an escape, that is the place. Else the names are walked.
    """
    if len(document) < FIND_BELOW_BYTES:
        token = b'"%b"' % name.encode()
        at = document.find(token)
        alone = at >= 0 and document.find(token, at + 1) < 0 and not _has_escaped_letter(document)
        if alone and (colon := _COLON.match(document, at + len(token))):
            return colon.end(), colon.end() + len(values[name])
    return _walk(document, values)[name]


def _has_escaped_letter(document: bytes) -> bool:
    return b"\\u00" in document and _ESCAPED_LETTER.search(document) is not None


def _walk(document: bytes, values: _Values) -> dict[str, Span]:
    """Spans of all top-level values, from their known lengths.

    The walk proves every offset: a name that occurs twice does not fit, because only its last value is known.
    """
    spans: dict[str, Span] = {}
    at = document.index(b"{") + 1
    separator = b","
    while separator == b",":
        key = _KEY.match(document, at)
        if key is None:
            raise SpliceRefused(_TWICE)
        name, start = _names.decode(key[1]), key.end()
        value = values.get(name)
        if value is None or name in spans or not document.startswith(value, start):
            raise SpliceRefused(_TWICE)
        end = start + len(value)
        spans[name] = (start, end)
        following = _NEXT.match(document, end)
        if following is None:
            raise SpliceRefused(_TWICE)
        separator, at = following[1], following.end()
    return spans
