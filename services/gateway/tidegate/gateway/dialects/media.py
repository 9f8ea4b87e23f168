"""Pictures and files in both spellings: `data:` URLs and base64 sources."""

import base64
import binascii

from tidegate.gateway.dialects.blocks import Document, Image
from tidegate.gateway.dialects.faults import STORED_FILE, RequestRefused
from tidegate.gateway.dialects.fields import Fields

_BASE64 = ";base64,"
PDF = "application/pdf"
_OF_TEXT = ("application/json", "application/xml", "application/yaml", "application/x-yaml")


def split_data_url(url: str) -> tuple[str, str] | None:
    """(media type, base64 text) of a `data:` URL; None for any other."""
    if not url.startswith("data:"):
        return None
    head, found, data = url[5:].partition(_BASE64)
    return (head.partition(";")[0], data) if found else None


def data_url(media_type: str, data: str) -> str:
    """The inverse of `split_data_url`."""
    return f"data:{media_type}{_BASE64}{data}"


def image_from_url(url: str, detail: str | None) -> Image:
    """An image as OpenAI's dialects name it."""
    inline = split_data_url(url)
    if inline is None:
        return Image(url=url, detail=detail)
    return Image(media_type=inline[0], data=inline[1], detail=detail)


def image_url(image: Image) -> str:
    """The inverse of `image_from_url`."""
    return image.url if image.url is not None else data_url(image.media_type, image.data)


def document_from_file(file: Fields) -> Document:
    """A file as OpenAI's dialects name it: `file_data` (a data URL), or `file_url`."""
    title = file.text("filename")
    data, url = file.text("file_data"), file.text("file_url")
    if data is not None:
        inline = split_data_url(data)
        if inline is None:
            raise file.wrong("file_data", "must be a base64 data URL")
        return Document(media_type=inline[0], data=inline[1], title=title)
    if url is not None:
        return Document(url=url, title=title)
    raise file.wrong("file_id", STORED_FILE)


def document_as_file(document: Document) -> dict[str, str]:
    """The inverse of `document_from_file` for a document with data; the dialect wants a name."""
    return {
        "filename": document.title or "document.pdf",
        "file_data": data_url(document.media_type, document.data),
    }


def document_as_source(document: Document) -> dict[str, str]:
    """What Anthropic takes as a document's source: a URL, words, or a PDF in base64; a file of text becomes words.

    Raises RequestRefused for any other file.
    """
    if document.url is not None:
        return {"type": "url", "url": document.url}
    if document.media_type == PDF and document.text is None:
        return {"type": "base64", "media_type": PDF, "data": document.data}
    words = _words_of(document) if document.text is None else document.text
    return {"type": "text", "media_type": "text/plain", "data": words}


def _words_of(document: Document) -> str:
    if document.media_type.startswith("text/") or document.media_type in _OF_TEXT:
        try:
            return base64.b64decode(document.data, validate=True).decode()
        except (binascii.Error, UnicodeDecodeError) as error:
            raise RequestRefused("messages.content", "a file of text must be UTF-8 in base64") from error
    raise RequestRefused("messages.content", "the upstream takes PDFs and text only as files")


def document_as_text(document: Document) -> str:
    """A plain text document as words in the conversation: title, context, text."""
    return "\n\n".join(filter(None, (document.title, document.context, document.text)))
