"""The tables of the read model: one per kind of fact, every row with its place in the log.

Rows are only ever added: a fact is one row, and what belongs together (a request, an attempt) is put
together by id in the views. So rows of different partitions commute, and no ingest reads another topic.
"""

from typing import NamedTuple

from tidegate.events import topics


class Column(NamedTuple):
    """Name and DuckDB type."""

    name: str
    type: str


class Table(NamedTuple):
    """A table of rows folded from one topic."""

    name: str
    topic: str
    columns: tuple[Column, ...]

    def ddl(self) -> str:
        """Its CREATE TABLE statement. No keys and no indexes: they grow for ever, and marks already
        drop what came twice."""
        columns = ", ".join(f"{column.name} {column.type}" for column in self.columns)
        return f"CREATE TABLE {self.name} ({columns})"


def _columns(names: str, kind: str) -> tuple[Column, ...]:
    return tuple(Column(name, kind) for name in names.split())


def _text(names: str) -> tuple[Column, ...]:
    return _columns(names, "VARCHAR")


def _int(names: str) -> tuple[Column, ...]:
    return _columns(names, "BIGINT")


def _flag(names: str) -> tuple[Column, ...]:
    return _columns(names, "BOOLEAN")


def _real(names: str) -> tuple[Column, ...]:
    return _columns(names, "DOUBLE")


BELIEFS = (
    "price_input_uncached",
    "price_cache_read",
    "price_cache_write_5m",
    "price_cache_write_1h",
    "price_output",
    "ttft_ms",
    "output_tokens_per_s",
    "output_tokens",
    "success",
)
"""Beliefs of a target; each is stored as mean, variance and `prior`."""

PLACE = (Column("log_partition", "INTEGER"), Column("log_offset", "BIGINT"))
_HEAD = PLACE + _text("event") + _int("ts_ns") + _text("source tenant request session")
_OF_DECISION = PLACE + _int("ts_ns") + _text("tenant request decision")
_OF_ATTEMPT = PLACE + _int("ts_ns") + _text("tenant request attempt target pool")
_WINDOW_USE = (
    _text("window_id")
    + _int("period_start_ns units duration_ns")
    + _flag("first_request rolling")
    + _real("peak")
)
_TOKENS = _int("input_uncached cache_read cache_write_5m cache_write_1h output reasoning")
_LIST_PRICE = _int(
    "price_input_uncached price_cache_read price_cache_write_5m price_cache_write_1h price_output"
)
_PRICE_PARTS = _int("cash_nanousd quota_nanousd retry_nanousd time_nanousd switch_nanousd price_nanousd")
_BELIEVED = tuple(
    column for name in BELIEFS for column in (*_real(f"{name}_mean {name}_var"), *_flag(f"{name}_prior"))
)


def _table(name: str, topic: topics.Topic, *columns: tuple[Column, ...]) -> Table:
    return Table(name, topic.name, tuple(column for group in columns for column in group))


TABLES: tuple[Table, ...] = (
    _table(
        "r_requests",
        topics.REQUESTS,
        _HEAD,
        _text("key_id route dialect endpoint"),
        _flag("stream"),
        _text("session_source"),
        _int("body_bytes input_tokens max_output_tokens"),
    ),
    _table(
        "r_refusals",
        topics.REQUESTS,
        _HEAD,
        _text("key_id route code"),
        _int("status"),
        _text("detail"),
    ),
    _table(
        "r_outcomes",
        topics.REQUESTS,
        _HEAD,
        _text("key_id route outcome"),
        _int("status attempts"),
        _text("decision target code"),
        _int("duration_ns ttft_ns cost_nanousd overhead_ns"),
    ),
    _table(
        "r_decisions",
        topics.REQUESTS,
        _HEAD,
        _text("decision key_id route dialect"),
        _flag("stream vision tools reasoning"),
        _int("input_tokens max_output_tokens now_ns"),
        _columns("seed", "HUGEINT"),
        _text("config code"),
        _int("decide_version"),
        _text("strategy chosen"),
        _int("candidates retry_at_ns took_ns"),
    ),
    _table(
        "r_candidates",
        topics.REQUESTS,
        _OF_DECISION,
        _int("place"),
        _text("target pool"),
        _int("target_version pool_version grade"),
        _text("reason detail"),
        _int("retry_at_ns rank"),
        _PRICE_PARTS,
        _int("expected_cached_tokens expected_output_tokens in_flight"),
        _real("p_exhaust propensity"),
        _text("service_tier"),
        _flag("ejected"),
    ),
    _table("r_planned_uses", topics.REQUESTS, _OF_DECISION, _text("target pool"), _WINDOW_USE),
    _table(
        "r_attempts",
        topics.SIGNALS,
        _HEAD,
        _text("attempt target pool route"),
        _int("attempt_index input_tokens reserve_output_tokens"),
        _LIST_PRICE,
    ),
    _table("r_first_tokens", topics.SIGNALS, _OF_ATTEMPT, _int("ttft_ns input_tokens")),
    _table(
        "r_settlements",
        topics.SIGNALS,
        _HEAD,
        _text("attempt target pool route basis outcome"),
        _TOKENS,
        _int("cost_nanousd"),
        _LIST_PRICE,
        _int("duration_ns ttft_ns input_estimate"),
        _text("model"),
        _flag("evidence"),
    ),
    _table("r_uses", topics.SIGNALS, _OF_ATTEMPT, _WINDOW_USE),
    _table(
        "r_failures",
        topics.SIGNALS,
        _HEAD,
        _text("attempt target pool cause phase rule"),
        _int("status retry_after_ms reset_at_ns"),
        _text("confidence"),
    ),
    _table(
        "r_corrections",
        topics.SIGNALS,
        _HEAD,
        _text("attempt target pool"),
        _int("correction delta_nanousd billed_nanousd"),
        _TOKENS,
        _text("evidence"),
    ),
    _table(
        "r_demand",
        topics.SIGNALS,
        _OF_DECISION,
        _text("pool"),
        _WINDOW_USE,
        _int("alternative_nanousd"),
        _flag("chosen"),
    ),
    _table(
        "r_quota",
        topics.SIGNALS,
        _HEAD,
        _text("target pool scope"),
        _int("quota_limit remaining resets_at_ns"),
    ),
    _table(
        "r_snapshots",
        topics.SNAPSHOTS,
        PLACE,
        _text("event"),
        _int("ts_ns"),
        _text("source subject kind subject_id"),
        _int("version at_ns"),
        _text("config"),
        _int("evidence_position"),
        _text("circuit circuit_cause"),
        _int("circuit_until_ns"),
        _text("cooldown_cause"),
        _int("cooldown_until_ns"),
        _real("ttft_p90_ms error_lower"),
        _BELIEVED,
    ),
    _table(
        "r_windows",
        topics.SNAPSHOTS,
        PLACE,
        _int("ts_ns"),
        _text("pool"),
        _int("version"),
        _text("window_id"),
        _int("period_start_ns resets_at_ns rolls_ns used quota_limit"),
        _text("status"),
        _int("told_at_ns"),
        _real("uvi p_exhaust"),
        _flag("will_exhaust"),
        _int("exhausts_at_ns exhausts_p10_ns exhausts_p50_ns exhausts_p90_ns"),
        _real("exhausts_sd_s remaining_demand"),
        _real("remaining_p05 remaining_p10 remaining_p50 remaining_p90 remaining_p95"),
        _real("coverage_80 coverage_90 forecasts_settled use_p90 shadow_nanousd amortised_nanousd"),
        _real("capacity capacity_sd outside outside_sd outside_demand"),
    ),
    _table(
        "r_control",
        topics.CONTROL,
        PLACE,
        _text("event"),
        _int("ts_ns"),
        _text("source type entity actor reason"),
    ),
)

BY_NAME: dict[str, Table] = {table.name: table for table in TABLES}

TOPICS: tuple[topics.Topic, ...] = (topics.REQUESTS, topics.SIGNALS, topics.SNAPSHOTS, topics.CONTROL)
"""The topics that are folded."""

BOOKKEEPING_DDL: tuple[str, ...] = (
    "CREATE TABLE meta (schema_digest VARCHAR)",
    "CREATE TABLE positions (topic VARCHAR, log_partition INTEGER, next_offset BIGINT)",
    "CREATE TABLE marks (topic VARCHAR, log_partition INTEGER, source VARCHAR, last_seq BIGINT, closed_ns BIGINT)",
)
