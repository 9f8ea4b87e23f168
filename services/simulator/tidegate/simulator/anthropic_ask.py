"""Reads the body of `POST /v1/messages` and finds its cache breakpoints."""

from typing import Any

from tidegate.simulator.ask import (
    Ask,
    Mark,
    compact,
    flag,
    invalid,
    messages,
    objects,
    placeholder,
    positive,
    read_json,
    split_model,
    texts,
)

ROLES = frozenset({"user", "assistant"})


def read(body: bytes, *, counting: bool = False) -> Ask:
    """Body bytes to Ask; token counting needs no `max_tokens`. Raises Refusal 400 that names the field."""
    fields = read_json(body)
    model, name, fault = split_model(fields)
    cap = positive(fields, "max_tokens")
    if cap is None and not counting:
        raise invalid("max_tokens: Field required", "max_tokens")
    prompt = _Prompt()
    tools = objects(fields, "tools")
    for tool in tools:
        prompt.add(compact(tool), tool)
    prompt.add_content(fields.get("system"), "system")
    for place, message in enumerate(messages(fields, ROLES)):
        prompt.add_content(message.get("content"), f"messages.{place}")
    prompt.add(b"", fields)
    return Ask(
        model=model,
        name=name,
        fault=fault,
        stream=flag(fields, "stream"),
        show_usage=True,
        output_cap=cap,
        prompt=b"".join(prompt.segments),
        marks=tuple(prompt.marks),
        tools=tuple(str(tool.get("name")) for tool in tools),
    )


class _Prompt:
    """Collects counted bytes in the order tools, system, messages, with the breakpoints between them."""

    def __init__(self) -> None:
        self.segments: list[bytes] = []
        self.marks: list[Mark] = []
        self._size_bytes = 0

    def add(self, data: bytes, holder: dict[str, Any]) -> None:
        """Append bytes; `cache_control` of what held them makes a breakpoint behind them."""
        self.segments.append(data)
        self._size_bytes += len(data)
        control = holder.get("cache_control")
        if control is None:
            return
        if not isinstance(control, dict) or control.get("type") != "ephemeral":
            raise invalid("cache_control.type must be 'ephemeral'", "cache_control")
        lifetime = control.get("ttl", "5m")
        if lifetime not in ("5m", "1h"):
            raise invalid("cache_control.ttl must be '5m' or '1h'", "cache_control")
        self.marks.append(Mark(self._size_bytes, hour=lifetime == "1h"))

    def add_content(self, content: Any, where: str) -> None:
        """Append a string or a list of content blocks."""
        if not isinstance(content, list):
            for data in texts(content, where):
                self.add(data, {})
            return
        for block in content:
            if not isinstance(block, dict) or not isinstance(block.get("type"), str):
                raise invalid(f"{where}.content has a block without a type", "messages")
            self._add_block(block, where)

    def _add_block(self, block: dict[str, Any], where: str) -> None:
        kind = block["type"]
        if kind in ("text", "thinking"):
            text = block.get(kind)
            if not isinstance(text, str):
                raise invalid(f"{where}.content has a {kind} block without {kind}", "messages")
            self.add(text.encode("utf-8", "surrogatepass"), block)
        elif kind == "tool_use":
            self.add(compact(block.get("input")), block)
        elif kind == "tool_result":
            self.add_content(block.get("content"), where)
            self.add(b"", block)
        else:
            self.add(placeholder(block), block)
