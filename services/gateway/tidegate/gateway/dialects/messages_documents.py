"""Pictures and documents of Anthropic messages -> blocks; a document may be put together of texts and pictures."""

import msgspec

from tidegate.gateway.dialects.blocks import Document, Image
from tidegate.gateway.dialects.faults import STORED_FILE, Notes
from tidegate.gateway.dialects.fields import Fields
from tidegate.gateway.dialects.openai_options import leave_item

Part = Document | Image
_NOTHING_ADDED: dict[str, object] = {"citations": [], "transformations": {}}


def image(item: Fields) -> Image:
    """A picture. Raises RequestRefused."""
    source = item.inner("source")
    kind = source.text("type") if source else None
    mark = item.json("cache_control")
    if source is not None and kind == "base64":
        return Image(media_type=source.needed_text("media_type"), data=source.needed_text("data"), cache=mark)
    if source is not None and kind == "url":
        return Image(url=source.needed_text("url"), cache=mark)
    raise _odd_source(item, source, "must be base64 or url")


def read(item: Fields, notes: Notes) -> tuple[Part, ...]:
    """A document: a file or a text, or the texts and pictures it is made of, in order. Raises RequestRefused.

    What the client says of it stands before it: in front of its first text, or as a text of its own.
    """
    source = item.inner("source")
    if source is None:
        raise item.wrong("source", "is missing")
    kind = source.text("type")
    title, context, mark = item.text("title"), item.text("context"), item.json("cache_control")
    note_citations(item, notes)
    if kind == "text":
        source.raw("media_type")  # the only one there is
        return (_text(source.needed_text("data"), title, context, mark),)
    if kind == "content":
        return _put_together(_parts(source, notes), title, context, mark)
    if kind == "base64":
        media_type, data = source.needed_text("media_type"), source.needed_text("data")
        file = Document(media_type=media_type, data=data, title=title, cache=mark)
    elif kind == "url":
        file = Document(url=source.needed_text("url"), title=title, cache=mark)
    else:
        raise _odd_source(item, source, "must be base64, url, text or content")
    return (_text(context), file) if context else (file,)


def note_citations(item: Fields, notes: Notes) -> None:
    """No other vendor says where in a document it read what it says."""
    citations = item.inner("citations")
    if citations is not None and citations.raw("enabled"):
        notes.drop("messages.content.citations")


def _text(
    text: str, title: str | None = None, context: str | None = None, mark: dict[str, object] | None = None
) -> Document:
    return Document(media_type="text/plain", text=text, title=title, context=context, cache=mark)


def _parts(source: Fields, notes: Notes) -> tuple[Part, ...]:
    content = source.raw("content")
    if isinstance(content, str):
        return (_text(content),)
    if not isinstance(content, list):
        raise source.wrong("content", "must be a string or a list of blocks")
    return tuple(_part(part, notes) for part in source.each("content"))


def _part(part: Fields, notes: Notes) -> Part:
    kind = part.needed_text("type")
    block: Part
    if kind == "text":
        block = _text(part.needed_text("text"), mark=part.json("cache_control"))
    elif kind == "image":
        block = image(part)
    else:
        raise part.wrong("type", "must be text or image")
    leave_item(part, "messages.content", notes, _NOTHING_ADDED)
    return block


def _put_together(
    parts: tuple[Part, ...], title: str | None, context: str | None, mark: dict[str, object] | None
) -> tuple[Part, ...]:
    first = parts[0] if parts else None
    if isinstance(first, Document):
        parts = (msgspec.structs.replace(first, title=title, context=context), *parts[1:])
    elif title or context:
        parts = (_text("", title, context), *parts)
    if parts and mark is not None:
        parts = (*parts[:-1], msgspec.structs.replace(parts[-1], cache=mark))
    return parts


def _odd_source(item: Fields, source: Fields | None, kinds: str) -> Exception:
    if source is None:
        return item.wrong("source", "is missing")
    is_stored = source.text("type") == "file"
    return source.wrong("file_id", STORED_FILE) if is_stored else source.wrong("type", kinds)
