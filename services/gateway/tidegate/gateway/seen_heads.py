"""Request heads judged before, by their bytes: a client repeats its head on every request. Pure."""

import re

from tidegate.gateway.request_head import RequestHead

MAX_HEADS = 1_024
MAX_HEAD_BYTES = 4_096
_END = b"\r\n\r\n"
_LENGTH = re.compile(rb"\r\n[Cc]ontent-[Ll]ength: (0|[1-9][0-9]{0,8})\r\n")


class SeenHeads:
    """Bounded memory of accepted heads; what was learned first is forgotten first.

    Only for bytes that begin where a message begins. There the same bytes, but for the digits of a
    Content-Length, always mean the same request with another body: neither parser nor checks need to run again.
    """

    __slots__ = ("_heads", "_max_body_bytes")

    def __init__(self, max_body_bytes: int) -> None:
        self._heads: dict[bytes, RequestHead] = {}
        self._max_body_bytes = max_body_bytes

    def find(self, data: bytes) -> tuple[RequestHead, bytes] | None:
        """Head and body when `data` is exactly one request with a head that was accepted before."""
        start = data.find(_END, 0, MAX_HEAD_BYTES) + len(_END)
        size = len(data) - start
        head = self._heads.get(_without_length(data[:start], size))
        if head is None or size > self._max_body_bytes:
            return None
        return head, data[start:]

    def learn(self, data: bytes, head: RequestHead) -> None:
        """The parser found in `data` one whole request with this head, and the checks accepted it."""
        size = len(data) - head.content_length
        # What was sent around a body (chunk sizes, an interim answer) is no part of a head: such are not kept.
        if not head.is_plain or size > MAX_HEAD_BYTES or data.find(_END) != size - len(_END):
            return
        if len(self._heads) >= MAX_HEADS:
            del self._heads[next(iter(self._heads))]
        self._heads[_without_length(data[:size], head.content_length)] = head


def _without_length(head: bytes, size: int) -> bytes:
    """The head less the digits of its Content-Length; b"", which is no head, when they do not say `size`."""
    found = _LENGTH.search(head)
    if found is None:
        return b"" if size else head
    if int(found[1]) != size:
        return b""
    return head[: found.start(1)] + head[found.end(1) :]
