"""The simulator's configuration: providers, their models, prices, windows, caches and faults."""

from typing import Annotated, Any, Literal

import msgspec
from msgspec import Meta

Count = Annotated[int, Meta(ge=0)]
Positive = Annotated[int, Meta(ge=1)]
Share = Annotated[float, Meta(ge=0.0, le=1.0)]
Duration = Annotated[float, Meta(ge=0.0)]
Span = Annotated[float, Meta(gt=0.0)]

TimeOfDay = Annotated[str, Meta(pattern="^([01][0-9]|2[0-3]):[0-5][0-9]$")]

Dialect = Literal["openai", "anthropic", "responses"]
ReasoningField = Literal["reasoning_content", "reasoning", "none"]
Mode = Literal["normal", "refuse", "connect_stall", "accept_stall"]
Billing = Literal["per_token", "flat", "prepaid"]


class Strict(msgspec.Struct, frozen=True, forbid_unknown_fields=True, kw_only=True):
    """A section of the file: unknown keys are mistakes."""


class Latency(Strict, frozen=True):
    """Time to the head (default: with the first token), to the first token; output speed (0: no delay)."""

    header_ms: Duration | None = None
    ttft_ms: Duration = 0.0
    ttft_per_1k_input_ms: Duration = 0.0
    tokens_per_s: Duration = 0.0
    jitter: Share = 0.0


class CacheRule(Strict, frozen=True):
    """Prefix cache: lifetimes, smallest cacheable prefix, and the block size prefixes are compared in."""

    ttl_s: Span = 300.0
    ttl_1h_s: Span = 3600.0
    min_block_tokens: Positive = 1024
    block_tokens: Positive = 128
    max_blocks: Positive = 1_000_000


class PeakRule(Strict, frozen=True):
    """From `from_time` to before `to_time` (`HH:MM`, the next day's when not later) units count `weight` times."""

    weight: Positive
    from_time: TimeOfDay
    to_time: TimeOfDay
    days: tuple[Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"], ...] = ()
    timezone: str = "UTC"


class WindowRule(Strict, frozen=True):
    """A quota period: `fixed` ones lie on multiples of `duration_s`, `first_request` ones start on use; `rolling`:
    none, the last `duration_s` count."""

    duration_s: Span
    unit: Literal["requests", "tokens"]
    limit: Positive
    kind: Literal["fixed", "first_request", "rolling"] = "fixed"
    name: str = ""
    told: Literal["count", "percent"] = "count"
    outside_per_hour: Duration = 0.0
    peaks: tuple[PeakRule, ...] = ()


class FaultRule(Strict, frozen=True):
    """When a fault strikes: every n-th matching request, by chance, or always; within a time span."""

    kind: str
    params: dict[str, str] = {}
    model: str | None = None
    every_n: Positive | None = None
    probability: Share | None = None
    from_s: Duration = 0.0
    until_s: Duration | None = None


class ScriptPart(Strict, frozen=True):
    """A part of a scripted turn. `{result}` in a text becomes the last result of a tool.

    A call (`kind` tool) gives `arguments`, or its free text (or arguments as they are to be sent) in `text`.
    """

    kind: Literal["reasoning", "redacted", "text", "refusal", "tool"] = "text"
    text: str = ""
    name: str = ""
    arguments: dict[str, Any] | None = None


class ScriptTurn(Strict, frozen=True):
    """What the assistant says in one turn. `finish` follows from the parts unless it is given."""

    parts: tuple[ScriptPart, ...]
    finish: Literal["stop", "length", "tool", "refusal", "filter", "sequence"] | None = None


class Script(Strict, frozen=True):
    """A conversation from the assistant's side; turn n answers a request that holds n turns of its."""

    name: Annotated[str, Meta(min_length=1)]
    turns: tuple[ScriptTurn, ...]


class ClassPrices(Strict, frozen=True):
    """Integer nano-dollars per million tokens of a class, searches, or requests."""

    input_uncached: Count | None = None
    cache_read: Count | None = None
    cache_write_5m: Count | None = None
    cache_write_1h: Count | None = None
    output: Count | None = None
    web_search: Count | None = None
    request: Count | None = None


class Tariff(ClassPrices, frozen=True):
    """Prices that replace the model's, those it names, where all its conditions hold.

    `from_s`: the request came then (Unix seconds) or later. `service_tier`: it was served so.
    `above_input_tokens`: its prompt has more tokens, cached ones included.
    """

    from_s: Duration = 0.0
    service_tier: str | None = None
    above_input_tokens: Count | None = None


class Model(ClassPrices, frozen=True, kw_only=True):
    """One model: its prices, limits, and how long its answers are. `tiers` are those it offers, `usual_tier` is that
    of requests that ask for none."""

    name: Annotated[str, Meta(min_length=1)]
    tiers: tuple[str, ...] = ()
    usual_tier: str | None = None
    tariffs: tuple[Tariff, ...] = ()
    web_searches: Count = 1
    billing: Billing | None = None
    context_window: Positive = 1_000_000
    max_output_tokens: Positive = 100_000
    min_answer_tokens: Positive = 8
    max_answer_tokens: Positive = 64
    reasoning_tokens: Count = 0
    reasoning_visible: bool = False
    quota_weight: Positive = 1
    script: str | None = None
    tool_share: Share = 0.0
    parallel_calls: Positive = 1
    embedding_dimensions: Positive = 16


class Provider(Strict, frozen=True):
    """One company on one port. `api_key` is checked when set and never shown."""

    id: Annotated[str, Meta(pattern="^[A-Za-z0-9][A-Za-z0-9._-]*$")]
    models: tuple[Model, ...]
    host: str = "127.0.0.1"
    port: Annotated[int, Meta(ge=0, le=65535)] = 0
    mode: Mode = "normal"
    tls_cert: str | None = None
    tls_key: str | None = None
    dialects: tuple[Dialect, ...] = ("openai", "anthropic", "responses")
    api_key: str | None = None
    seed: int | None = None
    latency: Latency = Latency()
    tokens_per_event: Positive = 1
    concurrency_limit: Positive | None = None
    keep_alive_s: Span = 75.0
    billing: Billing = "per_token"
    fee_nanousd: Count = 0
    balance_nanousd: int | None = None
    windows: tuple[WindowRule, ...] = ()
    cache: CacheRule | None = None
    faults: tuple[FaultRule, ...] = ()
    scripts: tuple[Script, ...] = ()
    shapes: tuple[str, ...] = ()
    reasoning_field: ReasoningField = "reasoning_content"
    refused_fields: tuple[str, ...] = ()
    refused_roles: tuple[str, ...] = ()
    keep_requests: Count = 0

    def __repr__(self) -> str:
        return f"Provider(id={self.id!r}, models={[model.name for model in self.models]!r})"


class SimulatorConfig(Strict, frozen=True):
    """All providers of a process. `speed` divides every duration; `log_path` gets a JSON line a request."""

    providers: tuple[Provider, ...]
    seed: int = 0
    speed: Span = 1.0
    log_path: str | None = None
