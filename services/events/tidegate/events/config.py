"""Config types: what the TOML file parses into, and the payload of ConfigPublished.

Secrets are references only (`env:NAME`, `file:PATH`); keys are stored as digests.
"""

import hashlib
from typing import Annotated, Literal

import msgspec
from msgspec import Meta

from tidegate.events.money import ListPrice, PartPrices, PriceVariant
from tidegate.events.types import (
    Dialect,
    Durability,
    KeyId,
    PoolId,
    RouteName,
    TargetId,
    TenantId,
    Unit,
    WindowId,
)

# `$` alone would let a line break pass at the end.
_NAME = Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._:/@+-]{0,127}(?!\n)$")
_PLAIN = r"[^\x00-\x1f\x7f]"

TenantName = Annotated[TenantId, _NAME]
KeyName = Annotated[KeyId, _NAME]
PoolName = Annotated[PoolId, _NAME]
WindowName = Annotated[WindowId, _NAME]
TargetName = Annotated[TargetId, _NAME]
RouteLabel = Annotated[RouteName, _NAME]
Slot = Annotated[str, Meta(pattern=r"^[A-Za-z0-9][A-Za-z0-9._-]{0,63}(?!\n)$")]
"""Also the name of a folder."""
Text = Annotated[str, Meta(pattern=rf"^{_PLAIN}{{0,256}}(?!\n)$")]
Required = Annotated[str, Meta(pattern=rf"^{_PLAIN}{{1,256}}(?!\n)$")]
Address = Annotated[str, Meta(pattern=r"^[A-Za-z0-9._:-]{1,253}(?!\n)$")]
Url = Annotated[str, Meta(pattern=rf"^{_PLAIN}{{1,2048}}(?!\n)$")]

# Every number has an end: what is stored, summed and multiplied stays in 64 bits, and no time is endless.
Port = Annotated[int, Meta(ge=0, le=65_535)]
Count = Annotated[int, Meta(gt=0, le=1_000_000)]
Tokens = Annotated[int, Meta(gt=0, le=1_000_000_000)]
Bytes = Annotated[int, Meta(gt=0, le=1 << 50)]
Units = Annotated[int, Meta(gt=0, le=10**18)]
Index = Annotated[float, Meta(gt=0, le=1_000)]
Weight = Annotated[float, Meta(gt=0, le=1_000)]
Clock = Annotated[
    str, Meta(pattern=r"^(([01][0-9]|2[0-3]):[0-5][0-9]|24:00)(?!\n)$", extra={"form": "hours:minutes"})
]
Weekday = Literal["mon", "tue", "wed", "thu", "fri", "sat", "sun"]
Cost = Annotated[float, Meta(gt=0, le=1_000_000)]
Share = Annotated[float, Meta(ge=0, le=1)]
Grade = Annotated[int, Meta(ge=0, le=1_000)]
Seconds = Annotated[float, Meta(ge=0.001, le=315_360_000, extra={"form": "seconds"})]
"""At most ten years."""
Pause = Annotated[float, Meta(ge=0, le=315_360_000, extra={"form": "seconds or 0"})]
Dollars = Annotated[int, Meta(ge=0, le=10**18, extra={"form": "dollars"})]
"""Nano-dollars; in TOML also a text with decimal dollars, e.g. "2.50"."""
Price = Annotated[int, Meta(ge=0, le=10**15, extra={"form": "dollars"})]
"""Nano-dollars per million tokens; in TOML as `Dollars`."""
Instant = Annotated[int, Meta(ge=0, le=2**63 - 1, extra={"form": "instant"})]
"""Nanoseconds since the epoch; in TOML also a date or date-time."""
Strategy = Literal["cheapest", "declared", "adaptive"]
UviBlocks = Literal["stressed", "critical"]


class Peak(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Hours in which the provider counts every unit of a window `weight` times: [from, to) by the clock of a zone."""

    weight: Weight
    begin: Clock = msgspec.field(name="from")
    end: Clock = msgspec.field(name="to")
    """Not after `from`: the hours end on the next day."""
    days: tuple[Weekday, ...] = ()
    """On which the hours begin; all where none is named."""
    timezone: Required = "UTC"
    offsets: tuple[tuple[int, int], ...] = ()
    """From when (ns) the zone is how many seconds ahead of UTC: filled in when the file is read."""


class Window(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One quota period of a pool. `fixed` periods start at `anchor_ns` + k·duration, `first_request`
    periods at the first use after the previous one ended. A `rolling` window has no periods: what was used in the
    last `duration_s` counts."""

    id: WindowName
    unit: Unit
    limit: Units
    duration_s: Seconds
    kind: Literal["fixed", "first_request", "rolling"] = "fixed"
    anchor_ns: Instant = msgspec.field(name="anchor", default=0)
    scope: Annotated[str, Meta(pattern=r"^[a-z0-9][a-z0-9-]{0,63}(?!\n)$")] | None = None
    """The limit in the provider's headers that measures it: `unified-5h`, `codex-primary`, `requests`."""
    percent_only: bool = False
    """The provider tells shares of it, no capacity: `limit` is a guess to begin with."""
    peaks: tuple[Peak, ...] = ()
    """Hours in which units count more, or less; the first that holds counts."""


class UviLimits(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Where a status of the utilization velocity index begins; it ends `hysteresis` further back."""

    stressed: Index = 1.5
    critical: Index = 2.0
    surplus: Index = 0.5
    surplus_min_elapsed: Share = 0.7
    hysteresis: Share = 0.1
    max_age_s: Seconds = 900.0


class AlarmCosts(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """What it costs to act as if a window ran dry that does not, and not to act where it does; only their ratio counts.

    A window is said to run dry where its chance is at least false_alarm / (false_alarm + miss).
    """

    false_alarm: Cost = 1.0
    miss: Cost = 1.0


class Pool(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Targets that share quota. `flat` pools bill a fee per period, nothing per token."""

    id: PoolName
    billing: Literal["per_token", "flat"] = "per_token"
    windows: tuple[Window, ...] = ()
    admit_quantile: Annotated[float, Meta(gt=0, lt=1)] = 0.9
    uvi: UviLimits = UviLimits()
    alarm: AlarmCosts = AlarmCosts()
    fee_nanousd: Dollars | None = None
    fee_period_s: Seconds = 2_592_000.0


class VariantPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Prices of long prompts, of a service tier, or of a tier's long prompts; what it leaves out stays."""

    above_input_tokens: Tokens | None = None
    """Input tokens, cached ones included, above which it holds, for all tokens of the request."""
    service_tier: Annotated[str, Meta(pattern=r"^[a-z][a-z0-9_-]{0,31}(?!\n)$")] | None = None
    input_uncached: Price | None = None
    cache_read: Price | None = None
    cache_write_5m: Price | None = None
    cache_write_1h: Price | None = None
    output: Price | None = None
    reasoning: Price | None = None
    input_audio: Price | None = None
    input_image: Price | None = None
    cache_read_audio: Price | None = None
    output_audio: Price | None = None
    output_image: Price | None = None
    web_search: Price | None = None
    request: Price | None = None


class DatedPrice(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """List price in force from `from_ns`: nano-dollars per million tokens by class."""

    from_ns: Instant = msgspec.field(name="from", default=0)
    input_uncached: Price | None = None
    cache_read: Price | None = None
    cache_write_5m: Price | None = None
    cache_write_1h: Price | None = None
    output: Price | None = None
    reasoning: Price | None = None
    input_audio: Price | None = None
    input_image: Price | None = None
    cache_read_audio: Price | None = None
    output_audio: Price | None = None
    output_image: Price | None = None
    web_search: Price | None = None
    request: Price | None = None
    variants: tuple[VariantPrice, ...] = ()
    source: Text | None = None
    """Where the numbers come from and when they were looked up."""

    def list_price(self) -> ListPrice:
        """The prices without their date. Variants for a tier come after those for all, long ones last."""
        ordered = sorted(self.variants, key=_precedence)
        return _listed(self, tuple(map(_variant, ordered)))


def _listed(price: DatedPrice | VariantPrice, variants: tuple[PriceVariant, ...] = ()) -> ListPrice:
    parts = PartPrices(
        reasoning=price.reasoning,
        input_audio=price.input_audio,
        input_image=price.input_image,
        cache_read_audio=price.cache_read_audio,
        output_audio=price.output_audio,
        output_image=price.output_image,
        web_search=price.web_search,
        request=price.request,
    )
    return ListPrice(
        input_uncached=price.input_uncached,
        cache_read=price.cache_read,
        cache_write_5m=price.cache_write_5m,
        cache_write_1h=price.cache_write_1h,
        output=price.output,
        parts=None if parts == _NO_PARTS else parts,
        variants=variants,
    )


def _variant(price: VariantPrice) -> PriceVariant:
    above = -1 if price.above_input_tokens is None else price.above_input_tokens
    return PriceVariant(_listed(price), above, price.service_tier)


def _precedence(price: VariantPrice) -> tuple[bool, int]:
    return price.service_tier is not None, price.above_input_tokens or 0


_NO_PARTS = PartPrices()


class Deadlines(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Upstream deadlines of one attempt, in seconds."""

    connect_s: Seconds = 5.0
    header_s: Seconds = 60.0
    first_token_s: Seconds = 120.0
    idle_s: Seconds = 60.0


class Target(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One upstream deployment. Changing pool, provider, model or secret needs a new id."""

    id: TargetName
    dialect: Dialect
    base_url: Url
    model: Required
    secret: Text | None = None
    provider: Text = ""
    pool: PoolName | None = None
    prices: tuple[DatedPrice, ...] = ()
    context_window: Tokens | None = None
    max_output_tokens: Tokens | None = None
    vision: bool = True
    documents: bool = True
    """Takes files: PDFs and what else its dialect has besides plain text."""
    tools: bool = True
    reasoning: bool = True
    max_in_flight: Count | None = None
    allow_private: bool = False
    ca_file: Required | None = None
    proxy: Url | None = None
    proxy_secret: Text | None = None
    deadlines: Deadlines = Deadlines()
    forward_headers: tuple[Annotated[str, Meta(pattern=r"^x-[a-z0-9-]{1,64}(?!\n)$")], ...] = ()
    """Client headers passed to this upstream besides the dialect's own allow-list."""
    also_speaks: tuple[Dialect, ...] = ()
    """Further dialects of the same model under the same `base_url`."""
    counts_tokens: bool = True
    """Has `/v1/messages/count_tokens`; else the gateway estimates."""
    quirks: dict[str, bool | int | str | list[str]] = {}
    """Deviations from its dialects, by name; what there is, the gateway knows."""
    enabled: bool = True
    quota_weight: Weight = 1.0
    """How often a request, token or dollar of its model counts in the windows of its pool."""
    when_abandoned: Literal["cancel", "finish_whole", "finish"] | None = None
    """What becomes of an answer whose client left; None: `finish_whole` in a pool per token, `cancel` in a flat one."""
    price_book: Required | None = None
    """Model of the price book (`provider/model`): its prices hold where `prices` says nothing else."""

    @property
    def pool_id(self) -> PoolId:
        """The target's pool; by default its own."""
        return self.pool if self.pool is not None else PoolId(self.id)

    def list_price(self, now_ns: int) -> ListPrice | None:
        """The list price in force at `now_ns`, None when none is."""
        price = None
        for dated in self.prices:
            if dated.from_ns <= now_ns:
                price = dated
        return None if price is None else price.list_price()


class Candidate(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A target a route may use. Grade 0 is the best answer quality; equal grades are equal substitutes."""

    target: TargetName
    grade: Grade = 0
    priority: Annotated[int, Meta(ge=-1_000_000, le=1_000_000)] = 0


class Route(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """The public model name a client asks for."""

    name: RouteLabel
    candidates: tuple[Candidate, ...]
    strategy: Strategy = "cheapest"
    deadline_s: Seconds = 600.0
    max_attempts: Annotated[int, Meta(gt=0, le=100)] = 4
    max_cost_nanousd: Dollars | None = None
    time_value_nanousd_per_s: Dollars = 0
    refusal_cost_nanousd: Dollars | None = None
    max_ttft_p90_ms: Tokens | None = None
    allow_downgrade: bool = False
    avoid_ejected: bool = False
    uvi_blocks: UviBlocks | None = None


class Tenant(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Who pays."""

    id: TenantName
    routes: tuple[RouteLabel, ...] | None = None


class Key(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """A tenant's API key, known only by its digest (`sha256:<hex of the whole key>`)."""

    id: KeyName
    tenant: TenantName
    digest: Annotated[str, Meta(pattern=r"^sha256:[0-9a-f]{64}(?!\n)$")]
    routes: tuple[RouteLabel, ...] | None = None


class Routing(msgspec.Struct, frozen=True, kw_only=True, omit_defaults=True):
    """The part of the config that decides: published, versioned by digest, replayed."""

    tenants: tuple[Tenant, ...] = ()
    keys: tuple[Key, ...] = ()
    pools: tuple[Pool, ...] = ()
    targets: tuple[Target, ...] = ()
    routes: tuple[Route, ...] = ()

    def digest(self) -> str:
        """sha256 over the canonical encoding."""
        return "sha256:" + hashlib.sha256(msgspec.json.encode(self)).hexdigest()

    def pool_of(self, target: Target) -> Pool:
        """The declared pool of a target, or the implied one of its own (per token, no windows)."""
        for pool in self.pools:
            if pool.id == target.pool_id:
                return pool
        return Pool(id=target.pool_id)


class GatewaySettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The tenant listener and its limits."""

    host: Address = "127.0.0.1"
    port: Port = 8080
    workers: Annotated[int, Meta(gt=0, le=256)] = 1
    slot: Slot = "gw"
    max_body_bytes: Annotated[int, Meta(gt=0, le=1 << 30)] = 32 * 1024 * 1024
    max_held_body_bytes: Bytes | None = None
    """Of all bodies a worker holds together; None: its part of a quarter of the memory it may use."""
    max_in_flight: Count = 2_000
    keepalive_s: Seconds = 75.0
    header_deadline_s: Seconds = 10.0
    body_deadline_s: Seconds = 60.0
    client_stall_s: Seconds = 60.0
    silent_keepalive_s: Seconds = 15.0
    drain_delay_s: Pause = 0.0
    drain_grace_s: Pause = 30.0
    upstream_connections: Count = 2_000


class LogSettings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """Which log, how Kafka is reached, and how the journal, the relay and the archive behave."""

    kind: Literal["sqlite", "kafka"] = "sqlite"
    bootstrap: Required | None = None
    topic_prefix: Annotated[str, Meta(pattern=r"^[A-Za-z0-9._-]{0,100}(?!\n)$")] = ""
    replication: Annotated[int, Meta(gt=0, le=9)] = 1
    """Copies of a Kafka record; 3 in production, with two in sync."""
    compression: Literal["none", "gzip", "lz4", "snappy", "zstd"] = "zstd"
    tls: bool = False
    ca_file: Required | None = None
    sasl: Literal["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"] | None = None
    username: Required | None = None
    password: Text | None = None
    journal_max_bytes: Bytes = 4 * 1024**3
    reserve_bytes: Bytes = 16 * 1024**2
    orphan_after_s: Pause = 10.0
    archive: bool = True
    archive_after_s: Pause = 3_600.0


class AdminSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The admin listener: own port, own credential, loopback by default."""

    host: Address = "127.0.0.1"
    port: Port = 8081
    token: Text | None = None


class MetricsSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """Where the log role shows the numbers of all processes of its machine over HTTP; off without a port."""

    host: Address = "127.0.0.1"
    port: Port | None = None
    token: Text | None = None


class EstimatorSettings(
    msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True
):
    """The stream processor."""

    runner: Literal["log", "faust"] = "log"
    publish_every_s: Seconds = 0.25


class Settings(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True, omit_defaults=True):
    """One TOML file. Every mistake is reported at once, by name and line (`runtime/settings`)."""

    data_dir: Required = "tidegate-data"
    data_key: Text | None = None
    durability: Durability = "strict"
    gateway: GatewaySettings = GatewaySettings()
    log: LogSettings = LogSettings()
    admin: AdminSettings = AdminSettings()
    metrics: MetricsSettings = MetricsSettings()
    estimator: EstimatorSettings = EstimatorSettings()
    tenants: tuple[Tenant, ...] = ()
    keys: tuple[Key, ...] = ()
    pools: tuple[Pool, ...] = ()
    targets: tuple[Target, ...] = ()
    routes: tuple[Route, ...] = ()
    price_file: Required | None = None
    """Model prices that go before those of the built-in price book."""

    def routing(self) -> Routing:
        """The published part."""
        return Routing(
            tenants=self.tenants,
            keys=self.keys,
            pools=self.pools,
            targets=self.targets,
            routes=self.routes,
        )
