"""Content blocks of Anthropic messages -> blocks."""

from tidegate.gateway.dialects import seals
from tidegate.gateway.dialects.blocks import Block, Document, Image, Text, Thinking, ToolCall, ToolResult
from tidegate.gateway.dialects.faults import STORED_FILE, Notes
from tidegate.gateway.dialects.fields import Fields
from tidegate.gateway.dialects.json_text import compact
from tidegate.gateway.dialects.openai_options import leave_item

_BILLING = "x-anthropic-billing-header:"
_LEFT_OUT = ("server_tool_use", "_tool_result", "mcp_tool_use")
_SEEN = ("citations", "caller", "transformations", "context")
"""Fields that add nothing another vendor could use: left out in silence."""


def read(owner: Fields, name: str, notes: Notes) -> list[Block]:
    """A string or a list of blocks under `name`."""
    content = owner.raw(name)
    if content is None:
        return []
    if isinstance(content, str):
        return [Text(content)] if content else []
    if not isinstance(content, list):
        raise owner.wrong(name, "must be a string or a list of blocks")
    return [block for item in owner.each(name) if (block := _block(item, notes)) is not None]


def instructions(owner: Fields, name: str, notes: Notes) -> tuple[Text, ...]:
    """The texts of a system prompt. A line of billing data that changes from call to call is left out: it would
    spoil the prompt cache and no other vendor reads it."""
    texts = [block for block in read(owner, name, notes) if isinstance(block, Text)]
    kept = tuple(text for text in texts if not text.text.startswith(_BILLING))
    if len(kept) < len(texts):
        notes.drop("system.billing_header")
    return kept


def _block(item: Fields, notes: Notes) -> Block | None:
    kind = item.needed_text("type")
    mark = item.json("cache_control")
    block: Block | None
    if kind == "text":
        block = Text(item.needed_text("text"), mark)
    elif kind == "thinking":
        block = seals.from_signature(item.needed_text("thinking"), item.text("signature") or "")
    elif kind == "redacted_thinking":
        block = Thinking(redacted=item.needed_text("data"))
    elif kind == "image":
        block = _image(item)
    elif kind == "document":
        block = _document(item)
    elif kind == "search_result":
        block = _search_result(item)
    elif kind == "tool_use":
        arguments = compact(item.json("input") or {})
        block = ToolCall(item.needed_text("id"), item.needed_text("name"), arguments, cache=mark)
    elif kind == "tool_result":
        block = _result(item, notes)
    elif kind.endswith(_LEFT_OUT):
        notes.drop(f"messages.content.{kind}")
        return None
    else:
        raise _unknown(item, kind)
    leave_item(item, "messages.content", notes, _SEEN)
    return block


def _unknown(item: Fields, kind: str) -> Exception:
    if kind == "container_upload":
        return item.wrong("file_id", STORED_FILE)
    return item.wrong("type", "is a kind of content that cannot be translated")


def _image(item: Fields) -> Image:
    source = item.inner("source")
    kind = source.text("type") if source else None
    mark = item.json("cache_control")
    if source is not None and kind == "base64":
        return Image(media_type=source.needed_text("media_type"), data=source.needed_text("data"), cache=mark)
    if source is not None and kind == "url":
        return Image(url=source.needed_text("url"), cache=mark)
    raise _odd_source(item, source, "must be base64 or url")


def _document(item: Fields) -> Document:
    source = item.inner("source")
    if source is None:
        raise item.wrong("source", "is missing")
    kind = source.text("type")
    title, mark = item.text("title"), item.json("cache_control")
    if kind == "base64":
        media_type, data = source.needed_text("media_type"), source.needed_text("data")
        return Document(media_type=media_type, data=data, title=title, cache=mark)
    if kind == "url":
        return Document(url=source.needed_text("url"), title=title, cache=mark)
    if kind == "text":
        source.raw("media_type")  # the only one there is
        return Document(media_type="text/plain", text=source.needed_text("data"), title=title, cache=mark)
    raise _odd_source(item, source, "must be base64, url or text")


def _odd_source(item: Fields, source: Fields | None, kinds: str) -> Exception:
    if source is None:
        return item.wrong("source", "is missing")
    is_stored = source.text("type") == "file"
    return source.wrong("file_id", STORED_FILE) if is_stored else source.wrong("type", kinds)


def _search_result(item: Fields) -> Text:
    lines = [item.text("title") or "", item.text("source") or ""]
    lines += [part.text("text") or "" for part in item.each("content")]
    return Text("\n".join(line for line in lines if line), item.json("cache_control"))


def _result(item: Fields, notes: Notes) -> ToolResult:
    content = tuple(
        block for block in read(item, "content", notes) if isinstance(block, Text | Image | Document)
    )
    return ToolResult(
        item.needed_text("tool_use_id"),
        content,
        bool(item.flag("is_error")),
        cache=item.json("cache_control"),
    )
