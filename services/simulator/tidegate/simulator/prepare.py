"""How long an answer is and how long it takes: everything random comes from seed, body and ordinal."""

from typing import NamedTuple

from tidegate.simulator.actions import SimRequest
from tidegate.simulator.answer import MIN_TOOL_TOKENS, Finish
from tidegate.simulator.ask import Ask
from tidegate.simulator.config import Latency, Model
from tidegate.simulator.plan import Timing
from tidegate.simulator.refusal import Refusal
from tidegate.simulator.seeded import integer, unit
from tidegate.simulator.tokens import TokenClasses

OUTPUT_HEADER = b"x-sim-output-tokens"
REASONING_HEADER = b"x-sim-reasoning-tokens"
TOOL_HEADER = b"x-sim-tool"
SEARCHES_HEADER = b"x-sim-web-searches"


class Wish(NamedTuple):
    """What the answer shall be: tokens in all, those of reasoning among them, the tool called, the ending."""

    output: int
    reasoning: int
    tool: str | None
    finish: Finish


def wish(request: SimRequest, ask: Ask, model: Model, seed: int, body_key: str) -> Wish:
    """Length and shape of the answer: by request headers, else seeded by the body. Raises Refusal 400."""
    asked = _count(request, OUTPUT_HEADER)
    reasoning = wanted_reasoning(request, model)
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


def wanted_reasoning(request: SimRequest, model: Model) -> int:
    """Tokens thought before the answer: by request header, else the model's. Raises Refusal 400."""
    asked = _count(request, REASONING_HEADER)
    return model.reasoning_tokens if asked is None else asked


def wanted_searches(request: SimRequest, ask: Ask, model: Model) -> int:
    """Web searches before the answer, where the request allows any: by request header, else the model's."""
    if not ask.searches:
        return 0
    asked = _count(request, SEARCHES_HEADER)
    return model.web_searches if asked is None else asked


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
