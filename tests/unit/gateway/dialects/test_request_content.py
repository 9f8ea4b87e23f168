"""Every kind of content of a conversation, from each dialect into each."""

from __future__ import annotations

import json
from typing import Any

import pytest

from support.dialect_calls import LEAST, body, sent
from tidegate.gateway.dialects import translate
from tidegate.gateway.dialects.blocks import Wire
from tidegate.gateway.dialects.faults import RequestRefused
from tidegate.gateway.dialects.quirks import PLAIN, Quirks

C: Wire = "openai"
M: Wire = "anthropic"
R: Wire = "openai-responses"
MARK = {"cache_control": {"type": "ephemeral"}}
PDF = "data:application/pdf;base64,JVBERg=="


def chat(
    *messages: dict[str, Any], upstream: Wire = M, quirks: Quirks = PLAIN
) -> tuple[Any, tuple[str, ...]]:
    made, warnings = sent(C, upstream, quirks, messages=list(messages))
    return made.get("messages", made.get("input")), warnings


def messages(
    *turns: dict[str, Any], upstream: Wire = C, quirks: Quirks = PLAIN
) -> tuple[Any, tuple[str, ...]]:
    made, warnings = sent(M, upstream, quirks, messages=list(turns))
    return made.get("messages", made.get("input")), warnings


def items(*found: dict[str, Any], upstream: Wire = M, quirks: Quirks = PLAIN) -> tuple[Any, tuple[str, ...]]:
    made, warnings = sent(R, upstream, quirks, input=list(found))
    return made.get("messages", made.get("input")), warnings


def user(*parts: dict[str, Any]) -> dict[str, Any]:
    return {"role": "user", "content": list(parts)}


def text(value: str) -> dict[str, Any]:
    return {"type": "text", "text": value}


def test_leading_instructions_become_the_system_prompt() -> None:
    made = body(
        C,
        M,
        messages=[
            {"role": "system", "content": "a"},
            {"role": "developer", "content": [text("b")]},
            {"role": "user", "content": "c"},
        ],
    )
    assert made["system"] == [text("a"), text("b")]
    assert made["messages"] == [user(text("c"))]
    made = body(C, R, messages=[{"role": "developer", "content": "a"}, {"role": "user", "content": "c"}])
    assert made["instructions"] == "a"
    made = body(M, C, system=[text("a"), text("b")])
    assert made["messages"] == [{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "hi"}]
    made = body(
        R,
        C,
        instructions="a",
        input=[{"role": "developer", "content": "b"}, {"role": "user", "content": "c"}],
    )
    assert made["messages"] == [{"role": "system", "content": "a\n\nb"}, {"role": "user", "content": "c"}]


def test_instructions_between_turns_keep_their_place() -> None:
    turns = (
        {"role": "user", "content": "a"},
        {"role": "developer", "content": "b"},
        {"role": "user", "content": "c"},
    )
    made, warnings = chat(*turns)
    assert made == [user(text("a"), text("b"), text("c"))]
    assert warnings == ("messages.role.system",)
    made, warnings = chat(*turns, quirks=Quirks(system_anywhere=True))
    assert [turn["role"] for turn in made] == ["user", "system", "user"]
    assert warnings == ()
    made, _ = chat(*turns, upstream=R)
    assert [turn["role"] for turn in made] == ["user", "developer", "user"]
    made, _ = chat(*turns, upstream=R, quirks=Quirks(no_developer_role=True))
    assert [turn["role"] for turn in made] == ["user", "system", "user"]
    made, _ = items(*turns, upstream=C)
    assert [turn["role"] for turn in made] == ["user", "developer", "user"]
    made, _ = items(*turns, upstream=C, quirks=Quirks(no_developer_role=True))
    assert [turn["role"] for turn in made] == ["user", "system", "user"]
    made, warnings = items(*turns, upstream=C, quirks=Quirks(system_first_only=True))
    assert [turn["role"] for turn in made] == ["user", "user", "user"]
    assert warnings == ("messages.role.system",)
    made, _ = messages({"role": "user", "content": "a"}, {"role": "system", "content": "b"})
    assert [turn["role"] for turn in made] == ["user", "system"]


def test_a_target_without_system_role_reads_the_instructions_as_user_text() -> None:
    made, warnings = sent(M, C, Quirks(no_system_role=True), system="a")
    assert [turn["role"] for turn in made["messages"]] == ["user", "user"]
    assert warnings == ("messages.role.system",)


def test_instructions_alone_are_asked_as_a_question() -> None:
    made, warnings = chat({"role": "system", "content": "a"})
    assert made == [user(text("a"))]
    assert warnings == ("messages.role.system",)


def test_a_request_that_says_nothing_is_refused() -> None:
    for upstream in (M, R):
        with pytest.raises(RequestRefused, match="say something"):
            chat({"role": "system", "content": ""}, upstream=upstream)
    made, warnings = chat({"role": "system", "content": "a"}, upstream=R)
    assert made == [{"type": "message", "role": "system", "content": [{"type": "input_text", "text": "a"}]}]
    assert warnings == ()


def test_a_line_of_billing_data_does_not_spoil_the_prompt_cache() -> None:
    made, warnings = sent(M, C, system=[text("x-anthropic-billing-header: cc_version=2; cch=1;"), text("a")])
    assert made["messages"][0]["content"] == "a"
    assert warnings == ("system.billing_header",)


def test_pictures_are_carried_by_url_and_as_data() -> None:
    by_url = {"type": "image_url", "image_url": {"url": "https://a.test/1.png", "detail": "low"}}
    inline = {"type": "image_url", "image_url": {"url": "data:image/png;base64,AAAA"}}
    made, warnings = chat(user(by_url, inline))
    url_block = {"type": "image", "source": {"type": "url", "url": "https://a.test/1.png"}}
    inline_block = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "AAAA"}}
    assert made == [user(url_block, inline_block)]
    assert warnings == ("messages.content.detail",)
    made, _ = chat(user(by_url, inline), upstream=R)
    assert made[0]["content"] == [
        {"type": "input_image", "image_url": "https://a.test/1.png", "detail": "low"},
        {"type": "input_image", "image_url": "data:image/png;base64,AAAA", "detail": "auto"},
    ]
    made, _ = messages(user(url_block, inline_block))
    assert made == [user({"type": "image_url", "image_url": {"url": "https://a.test/1.png"}}, inline)]
    made, _ = items(
        {
            "role": "user",
            "content": [{"type": "input_image", "image_url": "https://a.test/1.png", "detail": "low"}],
        },
        upstream=C,
    )
    assert made == [user(by_url)]


def test_documents_are_carried_as_far_as_the_upstream_takes_them() -> None:
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}
    block = {
        "type": "document",
        "source": {"type": "base64", "media_type": "application/pdf", "data": "JVBERg=="},
        "title": "a.pdf",
    }
    assert chat(user(file)) == ([user(block)], ())
    assert messages(user(block)) == ([user(file)], ())
    made, _ = messages(user({key: block[key] for key in ("type", "source")}), upstream=R)
    assert made[0]["content"] == [{"type": "input_file", "filename": "document.pdf", "file_data": PDF}]
    by_url = {"type": "document", "source": {"type": "url", "url": "https://a.test/1.pdf"}}
    made, _ = messages(user(by_url), upstream=R)
    assert made[0]["content"] == [{"type": "input_file", "file_url": "https://a.test/1.pdf"}]
    made, _ = items({"role": "user", "content": [{"type": "input_file", "file_url": "https://a.test/1.pdf"}]})
    assert made == [user(by_url)]
    with pytest.raises(RequestRefused):
        messages(user(by_url))
    plain = {
        "type": "document",
        "title": "t",
        "source": {"type": "text", "media_type": "text/plain", "data": "x"},
    }
    assert messages(user(plain)) == ([{"role": "user", "content": "t\n\nx"}], ())
    made, _ = messages(user({"type": "document", "source": plain["source"]}), upstream=R)
    assert made[0]["content"] == [{"type": "input_text", "text": "x"}]
    found = {
        "type": "search_result",
        "title": "t",
        "source": "s",
        "content": [text("x")],
        "citations": {"enabled": True},
    }
    assert messages(user(found)) == (
        [{"role": "user", "content": "t\ns\nx"}],
        ("messages.content.citations",),
    )


def test_tool_calls_and_their_results_stay_together() -> None:
    calls = [
        {"id": f"call_{n}", "type": "function", "function": {"name": "f", "arguments": '{"a": 1}'}}
        for n in (1, 2)
    ]
    results = [{"role": "tool", "tool_call_id": f"call_{n}", "content": f"r{n}"} for n in (1, 2)]
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": calls},
        *results,
        {"role": "user", "content": "z"},
    ]
    made, warnings = chat(*turns)
    assert warnings == ()
    assert made[1]["content"] == [
        {"type": "tool_use", "id": f"call_{n}", "name": "f", "input": {"a": 1}} for n in (1, 2)
    ]
    assert made[2]["content"] == [
        *({"type": "tool_result", "tool_use_id": f"call_{n}", "content": [text(f"r{n}")]} for n in (1, 2)),
        text("z"),
    ]
    back, _ = messages(*made)
    assert back == [
        *turns[:1],
        {
            "role": "assistant",
            "content": None,
            "tool_calls": [call | {"function": {"name": "f", "arguments": '{"a":1}'}} for call in calls],
        },
        *turns[2:],
    ]
    flat, _ = chat(*turns, upstream=R)
    assert [item["type"] for item in flat] == [
        "message", "function_call", "function_call", "function_call_output", "function_call_output", "message",
    ]  # fmt: skip
    again, _ = items(*flat, upstream=C)
    assert again == turns


def test_pictures_in_tool_results_reach_dialects_that_allow_only_text_there() -> None:
    picture = {"type": "image", "source": {"type": "url", "url": "https://a.test/1.png"}}
    call = {"role": "assistant", "content": [{"type": "tool_use", "id": "t1", "name": "f", "input": {}}]}
    result = user(
        {"type": "tool_result", "tool_use_id": "t1", "is_error": True, "content": [text("see"), picture]},
        text("so?"),
    )
    made, warnings = messages({"role": "user", "content": "q"}, call, result)
    assert made[2:] == [
        {"role": "tool", "tool_call_id": "t1", "content": "see"},
        user({"type": "image_url", "image_url": {"url": "https://a.test/1.png"}}, text("so?")),
    ]
    assert warnings == ("tool_result.is_error",)
    only = user({"type": "tool_result", "tool_use_id": "t1", "content": [picture]})
    made, _ = messages({"role": "user", "content": "q"}, call, only)
    assert made[2]["content"] == "The result is in the next message."
    made, warnings = messages({"role": "user", "content": "q"}, call, result, upstream=R)
    assert made[2]["output"] == [
        {"type": "input_text", "text": "see"},
        {"type": "input_image", "image_url": "https://a.test/1.png", "detail": "auto"},
    ]
    assert warnings == ("tool_result.is_error",)
    empty = user({"type": "tool_result", "tool_use_id": "t1"})
    made, _ = messages({"role": "user", "content": "q"}, call, empty)
    assert made[2]["content"] == ""


def test_an_error_of_a_tool_stays_one_where_the_dialect_has_it() -> None:
    made = translate.request(
        M, M, {"messages": [user({"type": "tool_result", "tool_use_id": "t", "is_error": True})]}, model="m"
    )
    assert b'"is_error":true' in made.body


def test_a_refusal_in_the_history_is_carried() -> None:
    refused = {"role": "assistant", "content": None, "refusal": "no"}
    made, _ = chat({"role": "user", "content": "q"}, refused)
    assert made[1] == {"role": "assistant", "content": [text("no")]}
    made, _ = chat(
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": "no"}]},
        upstream=R,
    )
    assert made[1] == {"type": "message", "role": "assistant", "content": "no"}
    made, _ = items(*made, upstream=C)
    assert made[1] == {"role": "assistant", "content": "no"}


def test_thinking_survives_where_it_can_be_proven() -> None:
    """Through another dialect and back, byte for byte."""
    signature = "Ab+/=:tidegate:π"
    thinking = {"type": "thinking", "thinking": "hm", "signature": signature}
    redacted = {"type": "redacted_thinking", "data": signature}
    said = [thinking, redacted, text("x")]
    turns = [{"role": "user", "content": "q"}, {"role": "assistant", "content": said}]
    details = Quirks(reasoning_details=True, reasoning_field="reasoning_content")
    through_chat, warnings = messages(*turns, quirks=details)
    assert warnings == ()
    assert through_chat[1]["reasoning_content"] == "hm"
    back, warnings = chat(*through_chat)
    assert back[1]["content"] == said
    assert warnings == ()


def test_sealed_reasoning_survives_where_it_can_be_read() -> None:
    item = {
        "type": "reasoning",
        "id": "rs_1",
        "summary": [{"type": "summary_text", "text": "hm"}],
        "encrypted_content": "gAAA",
    }
    turns = [{"role": "user", "content": "q"}, item, {"role": "assistant", "content": "x"}]
    through_chat, _ = items(*turns, upstream=C, quirks=Quirks(reasoning_details=True))
    back, warnings = chat(*through_chat, upstream=R)
    assert warnings == ()
    assert back[1] == item
    bare = {"type": "reasoning", "summary": [], "encrypted_content": "gAAA"}
    through_chat, _ = items(turns[0], bare, upstream=C, quirks=Quirks(reasoning_details=True))
    assert chat(*through_chat, upstream=R)[0][1] == bare


def test_sealed_reasoning_brings_its_wish_for_more() -> None:
    details = [
        {"type": "reasoning.encrypted", "format": "openai-responses-v1", "data": "gAAA", "summary": ""}
    ]
    made = body(
        C,
        R,
        messages=[
            {"role": "user", "content": "q"},
            {"role": "assistant", "content": "x", "reasoning_details": details},
        ],
    )
    assert made["include"] == ["reasoning.encrypted_content"]


def test_thinking_nobody_there_could_check_is_left_out() -> None:
    thinking = {
        "role": "assistant",
        "content": [{"type": "thinking", "thinking": "hm", "signature": "s"}, text("x")],
    }
    for upstream in (C, R):
        made, warnings = messages({"role": "user", "content": "q"}, thinking, upstream=upstream)
        assert warnings == ("thinking",)
        assert "hm" not in str(made)
    made, warnings = chat(
        {"role": "user", "content": "q"}, {"role": "assistant", "content": "x", "reasoning": "hm"}
    )
    assert made[1]["content"] == [text("x")]
    assert warnings == ("thinking",)
    made, warnings = items(
        {"role": "user", "content": "q"}, {"type": "reasoning", "summary": [], "encrypted_content": "g"}
    )
    assert (len(made), warnings) == (1, ("thinking",))


@pytest.mark.parametrize("field", ["reasoning_content", "reasoning"])
def test_thinking_goes_into_the_field_the_target_names(field: Any) -> None:
    turns = (
        {"role": "user", "content": "q"},
        {"type": "reasoning", "summary": [], "content": [{"type": "reasoning_text", "text": "hm"}]},
    )
    made, warnings = items(*turns, upstream=C, quirks=Quirks(reasoning_field=field))
    assert made[1] == {"role": "assistant", "content": "", field: "hm"}
    assert warnings == ()


def test_cache_marks_are_kept_where_the_upstream_takes_them() -> None:
    turns = (user(text("a") | MARK), {"role": "assistant", "content": [text("b") | MARK]}, user(text("c")))
    quirks = Quirks(cache_control=True)
    made, warnings = sent(M, C, quirks, system=[text("s") | MARK], messages=list(turns))
    assert warnings == ()
    assert made["messages"] == [
        {"role": "system", "content": [text("s") | MARK]},
        turns[0],
        turns[1],
        {"role": "user", "content": "c"},
    ]
    back, warnings = sent(C, M, messages=made["messages"])
    assert warnings == ()
    assert (back["system"], back["messages"]) == ([text("s") | MARK], list(turns))
    result = user({"type": "tool_result", "tool_use_id": "t", "content": "r", **MARK})
    made, _ = messages(user(text("q")), result, quirks=quirks)
    assert made[1]["content"] == [text("r") | MARK]
    for upstream in (C, R):
        made, warnings = sent(M, upstream, system=[text("s") | MARK], messages=list(turns))
        assert warnings == ("cache_control",)
        assert "cache_control" not in str(made)
    assert sent(M, C, cache_control={"type": "ephemeral"})[1] == ("cache_control",)


def test_openais_own_cache_marks_are_kept() -> None:
    mark = {"prompt_cache_breakpoint": {"mode": "explicit", "ttl": "30m"}}
    long = {"cache_control": {"type": "ephemeral", "ttl": "1h"}}
    picture = {"type": "image_url", "image_url": {"url": "u"}}
    file = {"type": "file", "file": {"filename": "a.pdf", "file_data": PDF}}
    made, warnings = chat(user(text("a") | mark, picture | mark, file | mark))
    assert warnings == ()
    assert all(block["cache_control"] == long["cache_control"] for block in made[0]["content"])
    parts = [
        {"type": "input_text", "text": "a"},
        {"type": "input_image", "image_url": "u"},
        {"type": "input_file", "file_url": "u"},
    ]
    made, warnings = items({"role": "user", "content": [part | mark for part in parts]})
    assert warnings == ()
    assert all(block["cache_control"] == long["cache_control"] for block in made[0]["content"])


def test_ids_of_tool_calls_are_shortened_where_the_target_wants_it() -> None:
    calls = [
        {"type": "tool_use", "id": call_id, "name": "f", "input": {}} for call_id in ("toolu_1", "abcDEF123")
    ]
    results = [{"type": "tool_result", "tool_use_id": call["id"], "content": "r"} for call in calls]
    quirks = Quirks(short_tool_ids=True)
    made, _ = messages(
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": calls},
        user(*results),
        quirks=quirks,
    )
    ids = [call["id"] for call in made[1]["tool_calls"]]
    assert ids == [message["tool_call_id"] for message in made[2:]]
    assert ids[1] == "abcDEF123"
    assert len(ids[0]) == 9
    assert ids[0].isalnum()
    odd = {"role": "assistant", "tool_calls": [5, {"id": "toolu_1"}, {"id": 5}]}
    same, _ = sent(C, C, quirks, messages=[odd, {"role": "tool", "tool_call_id": "toolu_1"}])
    assert same["messages"] == [
        {"role": "assistant", "tool_calls": [5, {"id": ids[0]}, {"id": 5}]},
        {"role": "tool", "tool_call_id": ids[0]},
    ]


def test_a_mark_of_the_clients_own_switches_automatic_caching_off() -> None:
    made = body(C, M, Quirks(auto_cache=True), messages=[user(text("a") | MARK)])
    assert "cache_control" not in made


def test_names_and_ids_that_do_not_fit_are_replaced_and_found_again() -> None:
    name = "mcp__" + "very_long_server_name_" * 4
    made = translate.request(
        M,
        C,
        {
            "max_tokens": 1,
            "messages": [
                user(text("q")),
                {
                    "role": "assistant",
                    "content": [{"type": "tool_use", "id": "t", "name": name, "input": {}}],
                },
            ],
            "tools": [{"name": name, "input_schema": {}}],
            "tool_choice": {"type": "tool", "name": name},
        },
        model="m",
    )
    (short,) = made.context.tool_names
    assert made.context.tool_names[short] == name
    assert len(short) <= 64
    assert made.body.count(short.encode()) == 3
    call = {"id": "functions.f:0", "type": "function", "function": {"name": "f", "arguments": ""}}
    result = {"role": "tool", "tool_call_id": "functions.f:0", "content": "r"}
    turns, _ = chat(
        {"role": "user", "content": "q"}, {"role": "assistant", "content": "", "tool_calls": [call]}, result
    )
    call_id = turns[1]["content"][0]["id"]
    assert call_id == turns[2]["content"][0]["tool_use_id"]
    assert call_id.startswith("functions_f_0_")


def test_tools_of_free_text_are_sent_as_functions_where_there_are_none() -> None:
    grammar = {"type": "grammar", "syntax": "lark", "definition": "start: x"}
    tool = {"type": "custom", "name": "patch", "description": "d", "format": grammar}
    call = {"type": "custom_tool_call", "call_id": "c1", "name": "patch", "input": "*** x"}
    result = {"type": "custom_tool_call_output", "call_id": "c1", "output": "ok"}
    asked = {
        "tools": [tool],
        "tool_choice": {"type": "custom", "name": "patch"},
        "input": [{"role": "user", "content": "q"}, call, result],
    }
    made = body(R, C, **asked)
    inner = {
        "name": "patch",
        "description": "d",
        "format": {"type": "grammar", "grammar": {"syntax": "lark", "definition": "start: x"}},
    }
    assert made["tools"] == [{"type": "custom", "custom": inner}]
    assert made["tool_choice"] == {"type": "custom", "custom": {"name": "patch"}}
    assert made["messages"][1]["tool_calls"] == [
        {"id": "c1", "type": "custom", "custom": {"name": "patch", "input": "*** x"}}
    ]
    back = body(C, R, tools=made["tools"], messages=made["messages"], tool_choice=made["tool_choice"])
    assert back["tools"] == [tool]
    assert back["tool_choice"] == asked["tool_choice"]
    assert back["input"][1] == call
    degraded: list[tuple[Wire, Quirks]] = [(C, Quirks(no_custom_tools=True)), (M, PLAIN)]
    for upstream, quirks in degraded:
        sent_on = translate.request(R, upstream, {"model": "r", **asked}, model="m", quirks=quirks)
        assert sent_on.context.custom_tools == {"patch"}
        assert b"*** x" in sent_on.body
        assert b"custom" not in sent_on.body
        assert b"lark" not in sent_on.body
    plain = body(C, R, tools=[{"type": "custom", "custom": {"name": "p", "format": {"type": "text"}}}])
    assert plain["tools"] == [{"type": "custom", "name": "p", "format": {"type": "text"}}]
    back = body(R, C, tools=plain["tools"])
    assert back["tools"] == [{"type": "custom", "custom": {"name": "p", "format": {"type": "text"}}}]
    assert body(R, C, tools=[{"type": "custom", "name": "p"}])["tools"] == [
        {"type": "custom", "custom": {"name": "p"}}
    ]


def test_tools_in_a_namespace_are_flattened() -> None:
    tool = {"type": "function", "name": "read", "parameters": {}}
    asked = {
        "tools": [{"type": "namespace", "name": "files", "tools": [tool]}],
        "input": [
            {"type": "function_call", "call_id": "c", "namespace": "files", "name": "read", "arguments": "{}"}
        ],
    }
    made = translate.request(R, M, asked, model="m")
    (name,) = made.context.tool_names
    assert made.context.tool_names[name] == "files\x1fread"
    assert made.body.count(name.encode()) == 2
    forced = translate.request(R, M, asked | {"tool_choice": {"type": "function", "name": "read"}}, model="m")
    assert json.loads(forced.body)["tool_choice"] == {"type": "tool", "name": name}


def test_records_of_the_providers_own_tools_are_left_out() -> None:
    made, warnings = items(
        {"role": "user", "content": "q"},
        {"type": "web_search_call", "id": "w"},
        {"role": "user", "content": None},
    )
    assert (len(made), warnings) == (1, ("input.web_search_call",))
    own = {"type": "server_tool_use", "id": "s", "name": "web_search", "input": {}}
    found = {"type": "web_search_tool_result", "tool_use_id": "s", "content": []}
    made, warnings = messages(
        {"role": "user", "content": "q"}, {"role": "assistant", "content": [own, found, text("x")]}
    )
    assert made[1] == {"role": "assistant", "content": "x"}
    assert warnings == ("messages.content.server_tool_use", "messages.content.web_search_tool_result")


def test_fields_inside_content_that_nobody_knows_are_named() -> None:
    _, warnings = chat({"role": "user", "name": "ann", "content": [text("a") | {"odd": 1}]})
    assert warnings == ("messages.content.odd", "messages.name")
    _, warnings = chat(
        {"role": "user", "content": "q"}, {"role": "tool", "tool_call_id": "t", "content": "r", "odd": 1}
    )
    assert warnings == ("messages.odd",)
    _, warnings = messages({"role": "user", "odd": 1, "content": [text("a") | {"strange": 1}]})
    assert warnings == ("messages.content.strange", "messages.odd")
    _, warnings = items({"role": "user", "content": [{"type": "input_text", "text": "a", "odd": 1}]})
    assert warnings == ("input.content.odd",)


REFUSED: list[tuple[Wire, dict[str, Any]]] = [
    (C, {"role": "function", "name": "f", "content": "x"}),
    (C, {"role": "user", "content": 5}),
    (C, {"role": "user", "content": [5]}),
    (C, {"role": "user", "content": [{"type": "input_audio"}]}),
    (C, {"role": "user", "content": [{"type": "file", "file": {"file_id": "f"}}]}),
    (C, {"role": "user", "content": [{"type": "file", "file": {"file_data": "zzz"}}]}),
    (C, {"role": "user", "content": [{"type": "image_url"}]}),
    (C, {"role": "tool", "content": "x"}),
    (C, {"role": "assistant", "function_call": {"name": "f"}}),
    (C, {"role": "assistant", "audio": {"id": "a"}}),
    (C, {"role": "assistant", "tool_calls": [{"id": "c"}]}),
    (C, {"role": "assistant", "tool_calls": [{"id": "c", "type": "custom"}]}),
    (M, {"role": "tool", "content": "x"}),
    (M, {"role": "user", "content": 5}),
    (M, {"role": "user", "content": [{"type": "hologram"}]}),
    (M, {"role": "user", "content": [{"type": "image", "source": {"type": "file", "file_id": "f"}}]}),
    (M, {"role": "user", "content": [{"type": "image"}]}),
    (M, {"role": "user", "content": [{"type": "document"}]}),
    (M, {"role": "user", "content": [{"type": "document", "source": {"type": "file"}}]}),
    (R, {"role": "robot", "content": "x"}),
    (R, {"type": "compaction", "encrypted_content": "x"}),
    (R, {"type": "item_reference", "id": "x"}),
    (R, {"role": "user", "content": [{"type": "input_image", "file_id": "f"}]}),
    (R, {"role": "user", "content": [{"type": "input_file", "file_id": "f"}]}),
    (R, {"role": "user", "content": [{"type": "input_audio"}]}),
]  # fmt: skip


@pytest.mark.parametrize(("client", "message"), REFUSED)
def test_content_that_cannot_be_carried_is_refused(client: Wire, message: dict[str, Any]) -> None:
    name = "input" if client == R else "messages"
    with pytest.raises(RequestRefused):
        sent(client, C if client == M else M, PLAIN, **{name: [message]})


FILE: dict[str, Any] = {"type": "file", "file_id": "file-1"}
STORED: list[tuple[Wire, dict[str, Any], str]] = [
    (C, {"type": "file", "file": {"file_id": "file-1"}}, "file.file_id"),
    (M, {"type": "image", "source": FILE}, "source.file_id"),
    (M, {"type": "document", "source": FILE, "title": "t"}, "source.file_id"),
    (M, {"type": "container_upload", "file_id": "file-1"}, "file_id"),
    (R, {"type": "input_image", "file_id": "file-1", "detail": "auto"}, "file_id"),
    (R, {"type": "input_file", "file_id": "file-1"}, "file_id"),
]


def as_result(client: Wire, part: dict[str, Any]) -> dict[str, Any]:
    """The same part as what a tool brought."""
    if client == C:
        return {"role": "tool", "tool_call_id": "c", "content": [part]}
    if client == M:
        result = {"type": "tool_result", "tool_use_id": "c", "content": [part]}
        return {"role": "user", "content": [result]}
    return {"type": "function_call_output", "call_id": "c", "output": [part]}


@pytest.mark.parametrize(("client", "part", "place"), STORED)
@pytest.mark.parametrize("in_result", [False, True])
def test_a_stored_file_is_refused_by_name_in_every_other_dialect_and_passes_in_its_own(
    client: Wire, part: dict[str, Any], place: str, *, in_result: bool
) -> None:
    name = "input" if client == R else "messages"
    said: dict[str, Any] = {"role": "user", "content": "see"}
    turn = as_result(client, part) if in_result else {"role": "user", "content": [part]}
    inner = "output" if client == R and in_result else "content"
    where = f"{name}[1].{inner}[0]" + (".content[0]" if client == M and in_result else "")
    for upstream in (C, M, R):
        if upstream == client:
            assert sent(client, upstream, PLAIN, **{name: [said, turn]})[0][name][1] == turn
            continue
        with pytest.raises(RequestRefused, match="a file stored at one provider") as refusal:
            sent(client, upstream, PLAIN, **{name: [said, turn]})
        assert refusal.value.field == f"{where}.{place}"


def test_a_picture_is_refused_where_the_target_takes_one_string() -> None:
    quirks = Quirks(content_as_text=True)
    picture = {"type": "image", "source": {"type": "url", "url": "u"}}
    with pytest.raises(RequestRefused, match="takes text only"):
        messages(user(text("a"), picture), quirks=quirks)
    assert messages(user(text("a"), text("b")), quirks=quirks)[0] == [{"role": "user", "content": "a\n\nb"}]


def test_only_words_of_the_assistant_are_taken_from_it() -> None:
    picture = {"type": "image", "source": {"type": "url", "url": "u"}}
    with pytest.raises(RequestRefused):
        messages(user(text("a")), {"role": "assistant", "content": [picture]}, upstream=R)


def test_a_refusal_of_the_user_is_refused() -> None:
    with pytest.raises(RequestRefused):
        items({"role": "user", "content": [{"type": "refusal", "refusal": "x"}]}, upstream=C)


def test_empty_words_are_left_out_where_they_are_forbidden() -> None:
    made, _ = chat(
        {"role": "user", "content": [text("")]},
        {"role": "assistant", "content": ""},
        {"role": "user", "content": "x"},
    )
    assert made == [user(text("x"))]
    made, _ = chat(
        {"role": "user", "content": "x"},
        {"role": "assistant", "content": [{"type": "refusal", "refusal": ""}]},
    )
    assert made == [user(text("x"))]
    made, _ = items(
        {"role": "system", "content": []},
        {"role": "user", "content": "x"},
        {"role": "system", "content": []},
        upstream=C,
    )
    assert made == [{"role": "user", "content": "x"}]


def test_of_reasoning_that_is_told_twice_the_summary_is_kept_and_the_rest_named() -> None:
    told = {
        "type": "reasoning",
        "summary": [{"type": "summary_text", "text": "short"}],
        "content": [{"type": "reasoning_text", "text": "long"}],
    }
    answer = {"type": "message", "role": "assistant", "content": [{"type": "output_text", "text": "a"}]}
    _, warnings = items(told, answer, {"role": "user", "content": "q"}, upstream=C)
    assert "input.reasoning.content" in " ".join(warnings)


@pytest.mark.parametrize(
    ("written", "shown"),
    [
        ("{", {}),
        ('{"a": 1, "b": "br', {"a": 1}),
        ("[1]", {"INVALID_JSON": "[1]"}),
        ("not json", {"INVALID_JSON": "not json"}),
    ],
)
def test_a_call_that_is_no_object_does_not_end_the_conversation(written: str, shown: dict[str, Any]) -> None:
    call = {"id": "c", "type": "function", "function": {"name": "f", "arguments": written}}
    turns = [
        {"role": "user", "content": "q"},
        {"role": "assistant", "content": None, "tool_calls": [call]},
        {"role": "tool", "tool_call_id": "c", "content": "not understood"},
    ]
    made, warnings = chat(*turns)
    assert made[1]["content"] == [{"type": "tool_use", "id": "c", "name": "f", "input": shown}]
    assert warnings == ("tool_calls.arguments",)
    longer, _ = chat(*turns, {"role": "assistant", "content": "sorry"}, {"role": "user", "content": "again"})
    assert longer[: len(made)] == made


@pytest.mark.parametrize("limit", [0, -1])
@pytest.mark.parametrize(
    ("client", "upstream", "field"),
    [
        (C, M, "max_tokens"),
        (C, R, "max_completion_tokens"),
        (M, C, "max_tokens"),
        (R, C, "max_output_tokens"),
    ],
)
def test_a_bound_that_leaves_no_room_for_an_answer_is_refused(
    client: Wire, upstream: Wire, field: str, limit: int
) -> None:
    with pytest.raises(RequestRefused, match=f"`{field}`: must be at least 1"):
        translate.request(client, upstream, LEAST[client] | {field: limit}, model="m")
