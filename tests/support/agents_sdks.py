"""Seeded conversations that an npm SDK holds through the gateway with scripted models, and how they are judged."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from random import Random
from typing import Any, NamedTuple

from support.agents_gateway import GATEWAY_URL, gateway
from support.agents_install import Package, installed, node
from support.agents_isolation import Command, Outcome, run_isolated
from support.agents_runs import INVOICE, MODEL, PRICES, python_env, simulator
from support.dialect_answers import CHAT, MESSAGES, RESPONSES
from support.dialect_corpus import PNG, arguments, words
from support.dialect_sdks import heard
from support.rig import KEY

PROGRAMS = Path(__file__).with_name("sdks")

KINDS = {"chat": CHAT, "messages": MESSAGES, "responses": RESPONSES}
TOOLS = ("get_weather", "search-docs", "write_file", "mcp__files__read")
_WITHIN_S = 1200.0
_FRESH = {"id", "created", "created_at", "completed_at", "call_id", "item_id"}
"""Differs from answer to answer."""
_ADDED = {"parsed", "output_parsed", "parsed_arguments", "output_text", "_request_id"}
"""Put in by the SDKs when they parse."""


class Conversation(NamedTuple):
    """What is asked, in the words of the SDK, and what the model will say turn by turn: its script.

    With a schema there is no script: the provider makes up values that fit what it was sent.
    """

    kind: str
    script: str
    route: str
    question: Any
    asked: dict[str, Any]
    said: list[dict[str, Any]]
    is_formed: bool = False

    def plan(self) -> dict[str, Any]:
        """What the program of the SDK needs of it."""
        asked = {"model": self.route, **self.asked}
        turns = len(self.said)
        return {
            "kind": self.kind,
            "script": self.script,
            "scripted": not self.is_formed,
            "question": self.question,
            "turns": turns,
            "asked": asked,
        }


def conversation(kind: str, route: str, number: int) -> Conversation:
    """The conversation of this number: the same for every route."""
    random = Random(f"{kind}/{number}")
    script = f"{kind}-{route}-{number}"
    turns = random.randint(1, 3)
    asked = _ASKED[kind]()
    if number % 6 == 5:
        question = _question(random, kind)
        return Conversation(kind, script, route, question, asked | _FORMS[kind], [{}] * turns, is_formed=True)
    if number % 6 == 4 and kind in _CUSTOM:
        said = [_free_turn(random, route) for _ in range(turns)]
        asked = asked | {"tools": [*asked["tools"], _CUSTOM[kind]]}
    else:
        said = [_turn(random) for _ in range(turns)]
    return Conversation(kind, script, route, _question(random, kind), asked, said)


def embedding(route: str, number: int) -> Conversation:
    """One to four texts at once, or one that is not in a list."""
    random = Random(f"embeddings/{number}")
    given: Any = [words(random) for _ in range(random.randint(1, 4))] if number % 3 else words(random)
    return Conversation("embeddings", f"embeddings-{number}", route, "", {"input": given}, [{"parts": []}])


def _question(random: Random, kind: str) -> Any:
    """Words, with a picture sometimes."""
    text = words(random)
    if random.random() < 0.7:
        return text
    url = f"data:image/png;base64,{PNG}"
    if kind == "chat":
        return [{"type": "text", "text": text}, {"type": "image_url", "image_url": {"url": url}}]
    if kind == "messages":
        source = {"type": "base64", "media_type": "image/png", "data": PNG}
        return [{"type": "image", "source": source}, {"type": "text", "text": text}]
    picture = {"type": "input_image", "image_url": url, "detail": "auto"}
    return [{"type": "input_text", "text": text}, picture]


def _turn(random: Random) -> dict[str, Any]:
    parts: list[dict[str, Any]] = []
    if random.random() < 0.5:
        parts.append({"kind": "reasoning", "text": words(random)})
    if random.random() < 0.1:
        parts.append({"kind": "redacted", "text": words(random)})
    calls = random.choice((0, 0, 1, 2, 3))
    if random.random() < 0.8 or not calls:
        parts.append({"kind": "text", "text": words(random, 60)})
    for _ in range(calls):
        given = json.loads(arguments(random))
        # TOML has no null.
        kept = {name: value for name, value in given.items() if value is not None}
        parts.append({"kind": "tool", "name": random.choice(TOOLS), "text": json.dumps(kept)})
    cut = {"finish": "length"} if not calls and random.random() < 0.2 else {}
    return {"parts": parts, **cut}


def _free_turn(random: Random, route: str) -> dict[str, Any]:
    """A call of the tool that takes free text, between words and another call; as an object where it must be one."""
    free = words(random, 40)
    text = json.dumps({"input": free}) if route == "to-anthropic" else free
    call = {"kind": "tool", "name": FREE, "text": text}
    function = {"kind": "tool", "name": TOOLS[0], "text": json.dumps({"city": words(random, 4)})}
    return {"parts": [{"kind": "text", "text": words(random, 9)}, *random.choice(([call], [function, call]))]}


def _schema(name: str, key: str) -> dict[str, Any]:
    return {"name": name, "description": "A tool", key: {"type": "object", "properties": {}}}


def _chat() -> dict[str, Any]:
    tools = [{"type": "function", "function": _schema(name, "parameters")} for name in TOOLS]
    return {"tools": tools, "reasoning_effort": "high"}


def _messages() -> dict[str, Any]:
    tools = [_schema(name, "input_schema") for name in TOOLS]
    return {"tools": tools, "max_tokens": 20_000, "thinking": {"type": "enabled", "budget_tokens": 10_000}}


def _responses() -> dict[str, Any]:
    tools = [{"type": "function", "strict": False, **_schema(name, "parameters")} for name in TOOLS]
    thoughts = {"effort": "high", "summary": "auto"}
    return {
        "tools": tools,
        "reasoning": thoughts,
        "store": False,
        "include": ["reasoning.encrypted_content"],
    }


FREE = "run_shell"
_CUSTOM: dict[str, dict[str, Any]] = {
    "chat": {"type": "custom", "custom": {"name": FREE, "description": "Runs what it is given"}},
    "responses": {"type": "custom", "name": FREE, "description": "Runs what it is given"},
}
PLACES = ("pier", "港", "né")
FORM: dict[str, Any] = {
    "type": "object",
    "properties": {
        "place": {"type": "string", "enum": list(PLACES)},
        "height": {"type": "integer"},
        "tides": {"type": "array", "items": {"type": "string"}},
    },
    "required": ["place", "height", "tides"],
    "additionalProperties": False,
}
_NAMED = {"name": "tide", "strict": True, "schema": FORM}
_FORMS: dict[str, dict[str, Any]] = {
    "chat": {"response_format": {"type": "json_schema", "json_schema": _NAMED}},
    "messages": {"output_config": {"format": {"type": "json_schema", "schema": FORM}}},
    "responses": {"text": {"format": {"type": "json_schema", **_NAMED}}},
}
_ASKED = {"chat": _chat, "messages": _messages, "responses": _responses}


def hold(
    package: Package,
    program: str,
    conversations: Sequence[Conversation],
    routes: Mapping[str, str],
    folder: Path,
) -> tuple[dict[str, Any], Outcome]:
    """All conversations by one process of the SDK: what it heard in each, by script, and how the run ended.

    Raises NotInstallable, RuntimeError when a server does not start.
    """
    work = folder / "work"
    work.mkdir()
    # Modules are looked for beside the file that imports them.
    (work / "node_modules").symlink_to(installed(package) / "node_modules")
    (work / program).write_text((PROGRAMS / program).read_text())
    plan = {"url": GATEWAY_URL, "key": KEY, "conversations": [one.plan() for one in conversations]}
    (work / "plan.json").write_text(json.dumps(plan))
    scripts = [{"name": one.script, "turns": one.said} for one in conversations if one.said[0].get("parts")]
    outcome = run_isolated(
        [simulator(folder, [{"name": MODEL, **PRICES}], scripts=scripts), gateway(folder, routes)],
        Command([node(), program, "plan.json", "heard.json"], python_env(folder), work),
        folder=folder,
        timeout_s=_WITHIN_S,
        pages=[INVOICE],
    )
    assert (outcome.code, outcome.interfaces) == (0, ["lo"]), outcome.err
    return json.loads((work / "heard.json").read_text()), outcome


def lasting(value: Any) -> Any:
    """An answer without what is fresh in each, what the SDK adds, and absent or empty values.

    Of fresh seals only that they are there; of arguments what they say, for some dialects have no text of them.
    """
    if isinstance(value, dict):
        return {
            name: _lasting_field(name, inner)
            for name, inner in value.items()
            if inner is not None and inner != "" and name not in _FRESH | _ADDED
        }
    return [lasting(inner) for inner in value] if isinstance(value, list) else value


def _lasting_field(name: str, value: Any) -> Any:
    if isinstance(value, str):
        if name == "arguments":
            return json.loads(value)
        # That a seal is unharmed shows in the next turn: the provider refuses what it did not make.
        if name in {"encrypted_content", "data"} or (name == "signature" and value.startswith("tidegate:")):
            return "sealed"
    return lasting(value)


def check_turn(one: Conversation, said: Mapping[str, Any], turn: Mapping[str, Any]) -> None:
    """The stream came to the whole answer, and that is what the model said."""
    streamed, whole = lasting(turn["streamed"]), lasting(turn["whole"])
    if one.route == "to-openai-responses" and one.kind == "messages":
        # Its stream names the tier at the end, where this SDK does not look for it.
        assert "service_tier" not in streamed["usage"]
        whole["usage"].pop("service_tier", None)
    assert streamed == whole
    if one.kind == "responses":
        check_items(turn)
    whole = heard(KINDS[one.kind], _present(turn["whole"]))
    if one.is_formed:
        check_form(json.loads(whole.text))
        return
    # Chat completions have no words to ask for a summary: what is thought comes sealed.
    hidden = one.kind == "chat" and one.route == "to-openai-responses"
    assert (whole.text, whole.thinking) == (
        _joined(said, "text"),
        "" if hidden else _joined(said, "reasoning"),
    )
    calls = [(part["name"], _given(part)) for part in said["parts"] if part.get("kind") == "tool"]
    assert [(name, given) for _, name, given in whole.calls] == calls
    assert len({call for call, _, _ in whole.calls}) == len(calls)


def check_form(value: Any) -> None:
    """The provider answered by the schema, so it had it, whole."""
    assert set(value) == set(FORM["required"])
    assert value["place"] in PLACES
    assert type(value["height"]) is int
    assert isinstance(value["tides"], list)
    assert all(isinstance(each, str) for each in value["tides"])


def _given(part: Mapping[str, Any]) -> Any:
    if part["name"] != FREE:
        return json.loads(part["text"])
    text: str = part["text"]
    return json.loads(text)["input"] if text.startswith('{"input"') else text


def check_items(turn: Mapping[str, Any]) -> None:
    """The deltas came to the items, the items to the final response."""
    assert lasting(turn["streamed"]["output"]) == lasting(turn["items"])
    for place, item in enumerate(turn["items"]):
        if item["type"] == "function_call":
            full = item["arguments"]
        elif item["type"] == "custom_tool_call":
            full = item["input"]
        else:
            full = "".join(part["text"] for part in item.get("content") or item["summary"])
        assert turn["added"].get(str(place), "") == full


def _present(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _present(inner) for name, inner in value.items() if inner is not None}
    return [_present(inner) for inner in value] if isinstance(value, list) else value


def _joined(said: Mapping[str, Any], kind: str) -> str:
    return "".join(part["text"] for part in said["parts"] if part["kind"] == kind)
