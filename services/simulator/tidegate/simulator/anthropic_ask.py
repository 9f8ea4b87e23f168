"""Reads the body of `POST /v1/messages` and finds its cache breakpoints."""

from collections.abc import Iterator, Mapping
from typing import Any

from tidegate.simulator.ask import (
    Ask,
    Mark,
    compact,
    flag,
    is_search,
    messages,
    objects,
    placeholder,
    positive,
    read_json,
    split_model,
    spoken,
    texts,
    tier,
    words,
)
from tidegate.simulator.refusal import invalid
from tidegate.simulator.transcript import Seal, Talk, Transcript, Words

ROLES = frozenset({"user", "assistant", "system"})
_WORDS = Words(
    unanswered="{where}: `tool_use` ids were found without `tool_result` blocks immediately after: {id}. Each "
    "`tool_use` block must have a corresponding `tool_result` block in the next message.",
    unexpected="{where}: unexpected `tool_use_id` found in `tool_result` blocks: {id}. Each `tool_result` block "
    "must have a corresponding `tool_use` block in the previous message.",
    duplicate="{where}: `tool_use` ids must be unique",
    param="messages",
)


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
    conversation = messages(fields, ROLES)
    for where, content in _strings(fields.get("system"), conversation):
        _refuse_blank(content, where)
    prompt.add_content(fields.get("system"), "system")
    if conversation[0]["role"] == "system":
        # Later ones are allowed: agents tell of their surroundings in the middle of a conversation.
        raise invalid(
            "messages.0: use the top-level 'system' parameter for the initial system prompt", "messages"
        )
    for place, message in enumerate(conversation):
        prompt.add_content(message.get("content"), f"messages.{place}")
    prompt.add(b"", fields)
    own = [tool for tool in tools if not is_search(tool)]
    return Ask(
        model=model,
        name=name,
        fault=fault,
        stream=flag(fields, "stream"),
        show_usage=True,
        output_cap=cap,
        prompt=b"".join(prompt.segments),
        marks=tuple(prompt.marks),
        tools=tuple(str(tool.get("name")) for tool in own),
        schemas={str(tool.get("name")): tool.get("input_schema") for tool in own},
        talk=_talk(conversation),
        form=_form(fields),
        stops=words(fields, "stop_sequences"),
        fields=frozenset(fields),
        omits_thoughts=_omits(fields.get("thinking")),
        service_tier="fast" if fields.get("speed") == "fast" else tier(fields),
        searches=len(own) < len(tools),
    )


def _form(fields: dict[str, Any]) -> Mapping[str, Any] | None:
    config = fields.get("output_config")
    wanted = config.get("format") if isinstance(config, dict) else fields.get("output_format")
    schema = wanted.get("schema") if isinstance(wanted, dict) else None
    return schema if isinstance(schema, dict) else None


def _strings(system: Any, conversation: list[dict[str, Any]]) -> Iterator[tuple[str, str]]:
    """The place of each content that is written as a string, and the string, if it is not empty."""
    turns = [(f"messages.{place}", turn.get("content")) for place, turn in enumerate(conversation)]
    for place, content in [("system", system), *turns]:
        if isinstance(content, str) and content:
            yield place, content


def _refuse_blank(text: str, where: str) -> None:
    if not text.strip():
        raise invalid(f"{where}: text content blocks must contain non-whitespace text", "messages")


def _omits(thinking: Any) -> bool:
    return isinstance(thinking, dict) and thinking.get("display") == "omitted"


def _talk(conversation: list[dict[str, Any]]) -> Talk:
    script = Transcript(_WORDS, ordered=True)
    for place, message in enumerate(conversation):
        content = message.get("content")
        blocks = content if isinstance(content, list) else []
        if message["role"] == "assistant":
            script.assistant(f"messages.{place}")
        for number, block in enumerate(blocks):
            where = f"messages.{place}.content.{number}"
            if message["role"] == "user" and block["type"] != "tool_result":
                script.between(where)
            _tell(script, block, where)
        if message["role"] != "assistant":
            script.user(f"messages.{place}")
    return script.talk(f"messages.{len(conversation)}")


def _tell(script: Transcript, block: dict[str, Any], where: str) -> None:
    match block["type"]:
        case "tool_use":
            script.call(str(block.get("id")), where)
        case "tool_result":
            script.result(str(block.get("tool_use_id")), spoken(block.get("content")), where)
        case "thinking":
            refusal = invalid(f"{where}: Invalid `signature` in `thinking` block", "messages")
            # Thoughts that were left out have a signature that stands for itself.
            script.seal(Seal(block["thinking"] or None, str(block.get("signature")), refusal))
        case "redacted_thinking":
            refusal = invalid(f"{where}: Invalid `data` in `redacted_thinking` block", "messages")
            script.seal(Seal(None, str(block.get("data")), refusal))
        case _:
            pass


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
            if kind == "text":
                _refuse_blank(text, where)
            self.add(text.encode("utf-8", "surrogatepass"), block)
        elif kind == "tool_use":
            self.add(compact(block.get("input")), block)
        elif kind == "tool_result":
            self.add_content(block.get("content"), where)
            self.add(b"", block)
        else:
            self.add(placeholder(block), block)
