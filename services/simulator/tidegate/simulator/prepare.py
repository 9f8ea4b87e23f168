"""From an admitted request to its answer and timing: everything random comes from seed, body and ordinal."""

from typing import NamedTuple

from tidegate.simulator.actions import SimRequest
from tidegate.simulator.answer import MIN_TOOL_TOKENS, Answer, Finish, Writer
from tidegate.simulator.ask import Ask, Refusal
from tidegate.simulator.config import Latency, Model
from tidegate.simulator.plan import Timing
from tidegate.simulator.seeded import integer, unit
from tidegate.simulator.tokens import TokenClasses

OUTPUT_HEADER = b"x-sim-output-tokens"
REASONING_HEADER = b"x-sim-reasoning-tokens"
TOOL_HEADER = b"x-sim-tool"


class Wish(NamedTuple):
    """What the answer shall be: tokens in all, those of reasoning among them, the tool called, the ending."""

    output: int
    reasoning: int
    tool: str | None
    finish: Finish


def wish(request: SimRequest, ask: Ask, model: Model, seed: int, body_key: str) -> Wish:
    """Length and shape of the answer: by request headers, else seeded by the body. Raises Refusal 400."""
    asked = _count(request, OUTPUT_HEADER)
    reasoning = _count(request, REASONING_HEADER)
    if reasoning is None:
        reasoning = model.reasoning_tokens
    if asked is None:
        spread = model.max_answer_tokens - model.min_answer_tokens + 1
        asked = reasoning + model.min_answer_tokens + integer(seed, f"length/{body_key}") % spread
    tool = request.header(TOOL_HEADER)
    if tool is not None:
        if tool not in ask.tools:
            raise Refusal(400, f"x-sim-tool: the request offers no tool {tool!r}", param="tools")
        asked = max(asked, reasoning + MIN_TOOL_TOKENS)
    output = min(asked, output_cap(ask, model))
    reasoning = min(reasoning, output)
    if tool is not None and output - reasoning >= MIN_TOOL_TOKENS:
        return Wish(output, reasoning, tool, "tool")
    return Wish(output, reasoning, None, "length" if output < asked else "stop")


def output_cap(ask: Ask, model: Model) -> int:
    """The most tokens the answer may have. Raises Refusal 400 when the request allows more than the model."""
    limit = model.max_output_tokens
    if ask.output_cap is not None and ask.output_cap > limit:
        raise Refusal(
            400,
            f"max_tokens: {ask.output_cap} > {limit}, which is the maximum allowed number of output tokens "
            f"for {model.name}",
            param="max_tokens",
        )
    return ask.output_cap or limit


def check_context(tokens: TokenClasses, model: Model) -> None:
    """Raise Refusal 400 when the prompt does not fit."""
    if tokens.prompt > model.context_window:
        raise Refusal(
            400,
            f"prompt is too long: This model's maximum context length is {model.context_window} tokens, "
            f"however your messages resulted in {tokens.prompt} tokens.",
            code="context_length_exceeded",
            param="messages",
        )


def answer(
    ask: Ask, model: Model, wanted: Wish, tokens: TokenClasses, writer: Writer, identity: tuple[str, int, int]
) -> Answer:
    """The answer; `identity`: its id, its creation (Unix seconds), and the number that chooses the words."""
    key, created_s, start = identity
    visible = wanted.output - wanted.reasoning
    return Answer(
        id=key,
        created_s=created_s,
        model=ask.model,
        tokens=tokens.with_answer(wanted.output, wanted.reasoning),
        reasoning=writer.text(start + visible, wanted.reasoning) if model.reasoning_visible else "",
        text=writer.text(start, visible) if wanted.tool is None else writer.arguments(start, visible),
        tool=wanted.tool,
        finish=wanted.finish,
        show_usage=ask.show_usage,
    )


def timing(latency: Latency, tokens: TokenClasses, seed: int, ordinal: int, speed: float) -> Timing:
    """Waits of one request. What the cache holds costs no time before the first token."""
    fresh = tokens.prompt - tokens.cache_read
    head_factor = rate_factor = 1.0
    if latency.jitter:
        head_factor += latency.jitter * (2 * unit(seed, f"ttft/{ordinal}") - 1)
        rate_factor += latency.jitter * (2 * unit(seed, f"rate/{ordinal}") - 1)
    ttft_ms = latency.ttft_ms + latency.ttft_per_1k_input_ms * fresh / 1000
    header_ms = ttft_ms if latency.header_ms is None else latency.header_ms
    token_s = rate_factor / latency.tokens_per_s if latency.tokens_per_s else 0.0
    scale = head_factor / 1000 / speed
    return Timing(header_ms * scale, ttft_ms * scale, token_s / speed)


def _count(request: SimRequest, header: bytes) -> int | None:
    value = request.header(header)
    if value is None:
        return None
    if not value.isdecimal():
        raise Refusal(400, f"{header.decode()} must be a whole number, not {value!r}")
    return int(value)
