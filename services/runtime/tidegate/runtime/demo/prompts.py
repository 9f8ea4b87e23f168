"""Prompts from block ids: equal leading ids are equal leading bytes, four bytes are one token. Pure."""

import hashlib
import json
from collections.abc import Iterator
from typing import Any, NamedTuple

from tidegate.runtime.demo.workload import TimedRequest

BYTES_PER_TOKEN = 4
_TOOLS = ("read_file", "edit_file", "run_command", "search")


class Prompt(NamedTuple):
    """The parts of a request that a provider counts: tools as compact JSON, system text, user text."""

    tools: list[dict[str, Any]]
    system: str
    user: str

    def messages(self) -> list[dict[str, str]]:
        """The conversation as a client sends it."""
        head = [{"role": "system", "content": self.system}] if self.system else []
        return [*head, {"role": "user", "content": self.user}]


class PromptWriter:
    """Writes the prompts of a strand; keeps the text of blocks it has met, as they are sent again and again."""

    def __init__(self) -> None:
        self._texts: dict[tuple[str, int, int], str] = {}

    def write(self, request: TimedRequest) -> Prompt:
        """A prompt of exactly `input_tokens` tokens. Tools and system text take whole blocks of its head, as
        far as the prompt is longer than they are."""
        text = self._text(request)
        head_bytes = _whole_blocks(request.tool_tokens, request)
        tools = _tools(text, head_bytes) if head_bytes < len(text) else []
        start = head_bytes if tools else 0
        system_bytes = _whole_blocks(request.system_tokens, request)
        end = min(start + system_bytes, len(text) - BYTES_PER_TOKEN)
        return Prompt(tools, text[start:end], text[max(start, end) :])

    def _text(self, request: TimedRequest) -> str:
        size_bytes = request.input_tokens * BYTES_PER_TOKEN
        block_bytes = request.block_tokens * BYTES_PER_TOKEN
        parts: list[str] = []
        left = size_bytes
        for scope, block in _blocks(request):
            if left <= 0:
                break
            parts.append(self._block(scope, block, block_bytes))
            left -= block_bytes
        if left > 0:
            # No block id covers the end: it is this request's own.
            own = f"{request.session}/{request.strand}/{request.at_s!r}"
            parts.append(_words(own, left))
        return "".join(parts)[:size_bytes]

    def _block(self, scope: str, block: int, size_bytes: int) -> str:
        key = scope, block, size_bytes
        text = self._texts.get(key)
        if text is None:
            text = self._texts[key] = _words(f"{scope}/{block}", size_bytes)
        return text


def _blocks(request: TimedRequest) -> Iterator[tuple[str, int]]:
    for span in request.spans:
        for block in range(span.first, span.first + span.blocks):
            yield span.scope, block


def _words(name: str, size_bytes: int) -> str:
    """`size_bytes` characters that follow from the name alone."""
    return hashlib.shake_128(name.encode()).hexdigest(-(-size_bytes // 2))[:size_bytes]


def _whole_blocks(tokens: int, request: TimedRequest) -> int:
    return tokens // request.block_tokens * request.block_tokens * BYTES_PER_TOKEN


def _tools(text: str, size_bytes: int) -> list[dict[str, Any]]:
    """Tool definitions whose compact JSON has exactly `size_bytes` bytes; none when they would not fit."""
    tools = [_tool(name, "") for name in _TOOLS]
    room = size_bytes - len(json.dumps(tools, separators=(",", ":")))
    if room < 0:
        return []
    share = room // len(tools)
    ends = [share * (place + 1) for place in range(len(tools) - 1)] + [room]
    start = 0
    for tool, end in zip(tools, ends, strict=True):
        tool["function"]["description"] = text[start:end]
        start = end
    return tools


def _tool(name: str, description: str) -> dict[str, Any]:
    arguments = {"type": "object", "properties": {"input": {"type": "string"}}, "required": ["input"]}
    function = {"name": name, "description": description, "parameters": arguments}
    return {"type": "function", "function": function}
