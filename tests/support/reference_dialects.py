"""What becomes of a request's fields in every other dialect, tried on one example each: docs/reference/dialects.md."""

from __future__ import annotations

import json
from typing import Any, NamedTuple

from support.dialect_calls import LEAST
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import RequestRefused

C: Wire = "openai"
M: Wire = "anthropic"
R: Wire = "openai-responses"
TITLES: dict[Wire, str] = {C: "chat completions", M: "messages", R: "responses"}
_OBJECT = {"type": "object", "properties": {}}
_PDF = "data:application/pdf;base64,JVBERg=="
_CSV = "data:text/csv;base64,MTsy"
_URL = "https://a.test/1"


class Example(NamedTuple):
    """A field or a value of one, and a request that has it."""

    name: str
    fields: dict[str, Any]


def _one(name: str, value: Any) -> Example:
    return Example(f"`{name}`", {name: value})


def _said(wire: Wire, name: str, *parts: dict[str, Any]) -> Example:
    turn = {"role": "user", "content": [*parts]}
    return Example(name, {"input" if wire == R else "messages": [turn]})


def _with_tool(wire: Wire, name: str, **fields: Any) -> Example:
    inner = {"name": "f", "parameters": _OBJECT}
    tool = {C: {"type": "function", "function": inner}, R: {"type": "function", **inner}}.get(wire)
    return Example(name, {"tools": [tool or {"name": "f", "input_schema": _OBJECT}], **fields})


def _tools(name: str, *tools: dict[str, Any]) -> Example:
    return Example(name, {"tools": [*tools]})


def _document(source: dict[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "document", "source": source, **more}


_SHARED = [
    _one("temperature", 0.5),
    _one("top_p", 0.5),
    _one("metadata", {"a": "b"}),
    _one("safety_identifier", "u"),
    _one("prompt_cache_key", "k"),
    _one("prompt_cache_retention", "24h"),
    _one("prompt_cache_options", {"ttl": "30m"}),
    _one("service_tier", "flex"),
    _one("store", True),
    _one("top_logprobs", 2),
    _one("moderation", {"model": "m"}),
]
"""Of both dialects of OpenAI."""

EXAMPLES: dict[Wire, list[Example]] = {
    C: [
        *_SHARED,
        _one("max_completion_tokens", 99),
        _one("reasoning_effort", "low"),
        _one("verbosity", "low"),
        _one("stop", ["x"]),
        *(_one(name, 0.5) for name in ("frequency_penalty", "presence_penalty")),
        _one("seed", 7),
        _one("n", 2),
        _one("logit_bias", {"1": 1}),
        _one("logprobs", True),
        _one("modalities", ["audio"]),
        _one("prediction", {"type": "content", "content": "x"}),
        _one("web_search_options", {}),
        _one("functions", [{"name": "f"}]),
        Example("`response_format` `json_schema`", {"response_format": {"type": "json_schema", "json_schema": {"name": "n", "schema": _OBJECT}}}),
        Example("`response_format` `json_object`", {"response_format": {"type": "json_object"}}),
        _with_tool(C, "function tools"),
        _tools("custom tools", {"type": "custom", "custom": {"name": "f"}}),
        _tools("custom tools with a grammar", {"type": "custom", "custom": {"name": "f", "format": {"type": "grammar", "grammar": {"syntax": "regex", "definition": "x"}}}}),
        _with_tool(C, "`tool_choice` among `allowed_tools`", tool_choice={"type": "allowed_tools", "allowed_tools": {"mode": "auto", "tools": [{"type": "function", "function": {"name": "f"}}]}}),
        _with_tool(C, "`parallel_tool_calls`", parallel_tool_calls=False),
        _said(C, "pictures", {"type": "image_url", "image_url": {"url": _URL}}),
        _said(C, "`detail` of a picture", {"type": "image_url", "image_url": {"url": _URL, "detail": "low"}}),
        _said(C, "PDF files", {"type": "file", "file": {"filename": "a.pdf", "file_data": _PDF}}),
        _said(C, "text files", {"type": "file", "file": {"filename": "a.csv", "file_data": _CSV}}),
        _said(C, "stored files", {"type": "file", "file": {"file_id": "f"}}),
        _said(C, "sound", {"type": "input_audio", "input_audio": {"data": "AAAA", "format": "wav"}}),
        Example("`name` of a message", {"messages": [{"role": "user", "name": "n", "content": "q"}]}),
    ],
    M: [
        _one("temperature", 0.5),
        _one("top_p", 0.5),
        _one("top_k", 5),
        Example("`metadata` `user_id`", {"metadata": {"user_id": "u"}}),
        _one("stop_sequences", ["x"]),
        _one("service_tier", "standard_only"),
        _one("speed", "fast"),
        _one("cache_control", {"type": "ephemeral"}),
        _one("thinking", {"type": "adaptive"}),
        Example("`output_config` `effort`", {"output_config": {"effort": "low"}}),
        Example("`output_config` `format`", {"output_config": {"format": {"type": "json_schema", "schema": _OBJECT}}}),
        _one("container", "c"),
        _one("mcp_servers", [{"type": "url", "name": "n", "url": _URL}]),
        _one("inference_geo", "us"),
        _with_tool(M, "tools"),
        _tools("`defer_loading`, `input_examples` of a tool", {"name": "f", "input_schema": _OBJECT, "defer_loading": True, "input_examples": [{}]}),
        *(_tools(f"tools that the client runs: `{kind}`", {"type": kind, "name": "t"}) for kind in ("bash_20250124", "text_editor_20250728", "memory_20250818")),
        *(_tools(f"tools that Anthropic runs, or knows: `{kind}`", {"type": kind, "name": "t"}) for kind in ("web_search_20260318", "code_execution_20260521", "computer_toolset_20260801")),
        _with_tool(M, "`tool_choice`", tool_choice={"type": "tool", "name": "f", "disable_parallel_tool_use": True}),
        _said(M, "pictures", {"type": "image", "source": {"type": "url", "url": _URL}}),
        _said(M, "documents: PDF", _document({"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="}, title="t", context="c")),
        _said(M, "documents: URL", _document({"type": "url", "url": _URL})),
        _said(M, "documents: text", _document({"type": "text", "media_type": "text/plain", "data": "x"}, title="t", context="c")),
        _said(M, "documents: texts and pictures", _document({"type": "content", "content": [{"type": "text", "text": "x"}, {"type": "image", "source": {"type": "url", "url": _URL}}]})),
        _said(M, "`citations` that are asked for", _document({"type": "text", "media_type": "text/plain", "data": "x"}, citations={"enabled": True})),
        _said(M, "search results", {"type": "search_result", "title": "t", "source": "s", "content": [{"type": "text", "text": "x"}]}),
        _said(M, "stored files", _document({"type": "file", "file_id": "f"})),
        _said(M, "`tool_reference`", {"type": "tool_result", "tool_use_id": "c", "content": [{"type": "tool_reference", "tool_name": "f"}]}),
        _said(M, "`is_error` of a tool's result", {"type": "tool_result", "tool_use_id": "c", "content": "x", "is_error": True}),
    ],
    R: [
        *_SHARED,
        _one("instructions", "be brief"),
        _one("max_output_tokens", 99),
        _one("max_tool_calls", 3),
        _one("truncation", "auto"),
        Example("`reasoning` `effort`, `summary`", {"reasoning": {"effort": "low", "summary": "auto"}}),
        Example("`reasoning` `context`, `mode`", {"reasoning": {"context": "auto", "mode": "pro"}}),
        Example("`text` `verbosity`", {"text": {"verbosity": "low"}}),
        Example("`text` `format` `json_schema`", {"text": {"format": {"type": "json_schema", "name": "n", "schema": _OBJECT}}}),
        Example("`prompt_cache_options` `prewarm`", {"prompt_cache_options": {"prewarm": True}}),
        _one("context_management", [{"type": "compaction"}]),
        _one("prompt", {"id": "p"}),
        _with_tool(R, "function tools"),
        _tools("custom tools", {"type": "custom", "name": "f"}),
        _tools("tools in a namespace", {"type": "namespace", "name": "n", "tools": [{"type": "function", "name": "f", "parameters": _OBJECT}]}),
        *(_tools(f"tools that OpenAI runs, or knows: `{kind}`", {"type": kind}) for kind in ("web_search", "mcp", "code_interpreter", "shell", "apply_patch")),
        _with_tool(R, "`tool_choice` among `allowed_tools`", tool_choice={"type": "allowed_tools", "mode": "auto", "tools": [{"type": "function", "name": "f"}]}),
        Example("items `additional_tools`", {"input": [{"role": "user", "content": "q"}, {"type": "additional_tools", "role": "developer", "tools": [{"type": "function", "name": "f", "parameters": _OBJECT}]}]}),
        *(Example(f"items `{kind}`", {"input": [{"role": "user", "content": "q"}, {"type": kind, "id": "i"}]}) for kind in ("web_search_call", "mcp_call", "tool_search_call", "shell_call", "compaction", "configuration_update", "item_reference")),
        Example("`phase` of a message", {"input": [{"role": "user", "content": "q"}, {"role": "assistant", "content": "a", "phase": "commentary"}, {"role": "user", "content": "q"}]}),
        _said(R, "pictures", {"type": "input_image", "image_url": _URL, "detail": "auto"}),
        _said(R, "files by URL", {"type": "input_file", "file_url": _URL}),
        _said(R, "text files", {"type": "input_file", "filename": "a.csv", "file_data": _CSV}),
        _said(R, "stored files", {"type": "input_file", "file_id": "f"}),
    ],
}  # fmt: skip


def fate(client: Wire, upstream: Wire, fields: dict[str, Any]) -> str:
    """`carried`, `left out` and what, or `refused`."""
    try:
        made = translate.request(client, upstream, LEAST[client] | fields, model="m")
    except RequestRefused:
        return "refused"
    if made.warnings:
        return "left out: " + ", ".join(f"`{name}`" for name in made.warnings)
    assert json.loads(made.body)
    return "carried"


def dialects_md() -> str:
    lines = [
        "# Between dialects",
        "",
        "What becomes of a request where the target speaks another dialect than the client: it is `carried` in the words of that",
        "dialect; it is `left out` and named so in the answer's header `x-tidegate-warnings`; or it is `refused`, because the answer",
        "would mean something else without it: the target is then no candidate. Within one dialect everything passes. Made by",
        "trying one example of each, with no quirks declared.",
    ]
    for client, examples in EXAMPLES.items():
        others: list[Wire] = [wire for wire in TITLES if wire != client]
        head = " | ".join(f"to {TITLES[wire]}" for wire in others)
        lines += ["", f"## Clients of {TITLES[client]}", "", f"| what | {head} |", "| --- | --- | --- |"]
        for example in examples:
            fates = " | ".join(fate(client, wire, example.fields) for wire in others)
            lines.append(f"| {example.name} | {fates} |")
    return "\n".join(lines) + "\n"
