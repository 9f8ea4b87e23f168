"""What an answer is made of: a script's turn, a value of a schema, seeded tool calls, or words to the token."""

import hashlib
from collections.abc import Mapping
from typing import NamedTuple

import orjson

from tidegate.simulator import sealing
from tidegate.simulator.actions import SimRequest
from tidegate.simulator.answer import THOUGHT, Finish, Part, Writer
from tidegate.simulator.ask import Ask
from tidegate.simulator.config import Model, Script, ScriptPart
from tidegate.simulator.fitting import fit
from tidegate.simulator.prepare import (
    OUTPUT_HEADER,
    TOOL_HEADER,
    Wish,
    output_cap,
    wanted_reasoning,
    wanted_searches,
    wish,
)
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.seeded import integer, unit
from tidegate.simulator.tokens import count

SCRIPT_HEADER = b"x-sim-script"


class Draft(NamedTuple):
    """The parts of an answer, its tokens, those of reasoning among them, and how it ends."""

    parts: tuple[Part, ...]
    output: int
    reasoning: int
    finish: Finish


class Composer:
    """Makes drafts for one provider: by its scripts first, then by what the request asks for."""

    def __init__(self, seed: int, scripts: tuple[Script, ...]) -> None:
        self._seed = seed
        self._writer = Writer(seed)
        self._scripts: Mapping[str, Script] = {script.name: script for script in scripts}

    def draft(self, request: SimRequest, ask: Ask, model: Model, body_key: str) -> Draft:
        """The answer of a request whose body has the digest `body_key`. Raises Refusal 400."""
        if ask.embeds is not None:
            return Draft((), 0, 0, "stop")
        draft = self._scripted(request, ask, model) or self._seeded(request, ask, model, body_key)
        searched = _searched(wanted_searches(request, ask, model))
        return draft._replace(parts=(*searched, *draft.parts)) if searched else draft

    def _seeded(self, request: SimRequest, ask: Ask, model: Model, body_key: str) -> Draft:
        steered = request.header(OUTPUT_HEADER) is not None or request.header(TOOL_HEADER) is not None
        if not steered and (ask.form is not None or model.tool_share):
            # By the prompt, not by the body: streamed or not, the answer is the same.
            prompt_key = hashlib.sha256(ask.prompt).hexdigest()
            parts = self._formed(ask, prompt_key) or self._called(ask, model, prompt_key)
            if parts:
                return self._capped(wanted_reasoning(request, model), parts, _finish_of(parts), ask, model)
        return self._worded(wish(request, ask, model, self._seed, body_key), ask, model, body_key)

    def _worded(self, wanted: Wish, ask: Ask, model: Model, body_key: str) -> Draft:
        start = integer(self._seed, f"words/{body_key}")
        visible = wanted.output - wanted.reasoning
        parts = self._thoughts(model, wanted.reasoning, start + visible, omitted=ask.omits_thoughts)
        if wanted.tool is not None:
            parts.append(Part("tool", self._writer.arguments(start, visible), visible, wanted.tool))
        elif visible:
            parts.append(Part("text", self._writer.text(start, visible), visible))
        return Draft(tuple(parts), wanted.output, wanted.reasoning, wanted.finish)

    def _thoughts(self, model: Model, tokens: int, start: int, *, omitted: bool) -> list[Part]:
        if not tokens or not model.reasoning_visible:
            return []
        return [self._sealed(Part("reasoning", self._writer.text(start, tokens), tokens), omitted=omitted)]

    def _formed(self, ask: Ask, key: str) -> list[Part]:
        if ask.form is None:
            return []
        text = orjson.dumps(fit(ask.form, self._seed, f"form/{key}")).decode()
        return [Part("text", text, count(len(text.encode())))]

    def _called(self, ask: Ask, model: Model, key: str) -> list[Part]:
        offers = [name for name in ask.tools if name not in ask.customs]
        if not offers or unit(self._seed, f"call/{key}") >= model.tool_share:
            return []
        calls = 1 + integer(self._seed, f"calls/{key}") % model.parallel_calls
        parts: list[Part] = []
        if integer(self._seed, f"said/{key}") % 2:
            parts.append(Part("text", self._writer.text(integer(self._seed, f"say/{key}"), 6), 6))
        for place in range(calls):
            label = f"call/{key}/{place}"
            name = offers[integer(self._seed, label) % len(offers)]
            text = orjson.dumps(fit(ask.schemas.get(name), self._seed, label)).decode()
            parts.append(Part("tool", text, count(len(text.encode())), name))
        return parts

    def _scripted(self, request: SimRequest, ask: Ask, model: Model) -> Draft | None:
        """The script's turn; none after its end, or when the request does not offer what the script calls."""
        asked = request.header(SCRIPT_HEADER)
        name = asked or model.script
        if name is None:
            return None
        script = self._scripts.get(name)
        if script is None:
            raise Refusal(
                400, f"x-sim-script: the provider has no script {name!r}", code="sim_script_unknown"
            )
        called = {part.name for turn in script.turns for part in turn.parts if part.kind == "tool"}
        if not called.issubset(ask.tools) or ask.talk.turns >= len(script.turns):
            return None
        turn = script.turns[ask.talk.turns]
        parts = [_played(part, ask) for part in turn.parts]
        return self._capped(0, parts, turn.finish or _finish_of(parts), ask, model)

    def _capped(self, thought: int, parts: list[Part], finish: Finish, ask: Ask, model: Model) -> Draft:
        """`thought` tokens of reasoning, then the parts; it ends early where the request's cap says so."""
        cap = output_cap(ask, model)
        hidden = min(thought, cap)
        kept = self._thoughts(model, hidden, 0, omitted=ask.omits_thoughts)
        left, reasoning = cap - hidden, hidden
        for part in parts:
            cut = _cut(part, left)
            if cut is not None:
                kept.append(self._sealed(cut, omitted=ask.omits_thoughts))
                left -= cut.tokens
                reasoning += cut.tokens if cut.kind in THOUGHT else 0
            if cut is None or cut.tokens < part.tokens:
                finish = "length"
                break
        return Draft(tuple(kept), cap - left, reasoning, finish)

    def _sealed(self, part: Part, *, omitted: bool) -> Part:
        if part.kind == "reasoning" and omitted:
            return part._replace(text="", seal=sealing.opaque(self._seed, part.text))
        if part.kind == "reasoning":
            return part._replace(seal=sealing.signature(self._seed, part.text))
        return part._replace(seal=sealing.opaque(self._seed, part.text)) if part.kind == "redacted" else part


def _played(part: ScriptPart, ask: Ask) -> Part:
    text = part.text
    if part.kind == "tool" and part.arguments is not None:
        text = orjson.dumps(part.arguments).decode()
    elif part.kind == "text":
        text = text.replace("{result}", ask.talk.result)
    custom = part.name in ask.customs
    return Part(part.kind, text, count(len(text.encode())), part.name, custom)


def _searched(searches: int) -> list[Part]:
    """Each search with what it found, then a page of that, which is opened without a fee."""
    parts: list[Part] = []
    for place in range(searches):
        parts += [Part("search", f"tide table {place}", 0), Part("found", f"tide table {place}", 0)]
    return [*parts, Part("opened", "https://tides.example/today", 0)] if parts else []


def _finish_of(parts: list[Part]) -> Finish:
    kinds = {part.kind for part in parts}
    return "tool" if "tool" in kinds else "refusal" if "refusal" in kinds else "stop"


def _cut(part: Part, left: int) -> Part | None:
    """What of a part fits into `left` tokens: calls and hidden thoughts wholly or not at all."""
    if part.tokens <= left:
        return part
    if left <= 0 or part.kind in ("tool", "redacted"):
        return None
    piece = next(part.pieces(left))
    # A letter that crosses the limit is left out.
    text = piece.text if piece.tokens <= left else piece.text[:-1]
    return part._replace(text=text, tokens=count(len(text.encode())))
