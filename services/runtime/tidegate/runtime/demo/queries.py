"""What the demo asks the read model, and the answers' shapes."""

import asyncio
from collections.abc import Mapping
from typing import Any

import msgspec

from tidegate.analytics.client import SocketSource
from tidegate.analytics.errors import QueryUnavailable
from tidegate.events.log.port import TopicPartition
from tidegate.runtime.demo.forecasts import ForecastRow
from tidegate.runtime.waiting import in_time

_RETRY_S = 0.1


class DecisionRow(msgspec.Struct, array_like=True, frozen=True):
    """How one target fared in all decisions; prices are means in nano-dollars over those it was admitted to."""

    target: str
    chosen: int
    admitted: int
    price_nanousd: int | None
    cash_nanousd: int | None
    quota_nanousd: int | None
    retry_nanousd: int | None


class ReasonRow(msgspec.Struct, array_like=True, frozen=True):
    """How often a target was not admitted for a reason."""

    target: str
    reason: str
    times: int


class SpendRow(msgspec.Struct, array_like=True, frozen=True):
    """Ledger of one tenant on one target."""

    target: str
    tenant: str
    attempts: int
    tokens: int
    ledger_nanousd: int


class WindowRow(msgspec.Struct, array_like=True, frozen=True):
    """What is believed of one quota window."""

    pool: str
    window: str
    used: int
    limit: int
    status: str
    uvi: float | None
    p_exhaust: float | None
    shadow_nanousd: float
    resets_at_ns: int | None
    believed_ns: int


class Tables(msgspec.Struct, frozen=True, kw_only=True):
    """Everything the report shows from the read model."""

    ledger_nanousd: int | None
    decisions: list[DecisionRow]
    reasons: list[ReasonRow]
    spend: list[SpendRow]
    windows: list[WindowRow]
    forecasts: list[ForecastRow] = []


_LEDGER = "SELECT CAST(sum(ledger_nanousd) AS BIGINT) FROM v_ledger"
_DECISIONS = """
SELECT target, count(*) FILTER (WHERE chosen), count(*) FILTER (WHERE rank IS NOT NULL),
    CAST(round(avg(price_nanousd)) AS BIGINT), CAST(round(avg(cash_nanousd)) AS BIGINT),
    CAST(round(avg(quota_nanousd)) AS BIGINT), CAST(round(avg(retry_nanousd)) AS BIGINT)
FROM v_candidates GROUP BY target ORDER BY 2 DESC, target
"""
_REASONS = """
SELECT target, reason, count(*) FROM v_candidates WHERE reason IS NOT NULL
GROUP BY target, reason ORDER BY 3 DESC, target, reason
"""
_SPEND = """
SELECT target, tenant, CAST(sum(attempts) AS BIGINT),
    CAST(coalesce(sum(input_uncached), 0) + coalesce(sum(cache_read), 0) + coalesce(sum(output), 0) AS BIGINT),
    CAST(coalesce(sum(ledger_nanousd), 0) AS BIGINT)
FROM v_spend GROUP BY target, tenant ORDER BY target, tenant
"""
_WINDOWS = """
SELECT pool, window_id, used, quota_limit, status, uvi, p_exhaust, shadow_nanousd, resets_at_ns, believed_ns
FROM v_windows ORDER BY pool, resets_at_ns
"""

_FORECASTS = """
SELECT pool, window_id, period, believed_ns, period_start_ns, resets_at_ns, used, quota_limit, p_exhaust,
    exhausts_p10_ns, exhausts_p50_ns, exhausts_p90_ns, exhausted_ns
FROM v_forecasts ORDER BY pool, resets_at_ns - period_start_ns, period, believed_ns
"""


async def read_tables(
    source: SocketSource, position: Mapping[TopicPartition, int], deadline_s: float
) -> Tables:
    """Ask for everything once the read model has come to `position`. Raises NotInTime."""
    await _caught_up(source, position, deadline_s)
    return Tables(
        ledger_nanousd=(await _rows(source, _LEDGER, list[tuple[int | None]]))[0][0],
        decisions=await _rows(source, _DECISIONS, list[DecisionRow]),
        reasons=await _rows(source, _REASONS, list[ReasonRow]),
        spend=await _rows(source, _SPEND, list[SpendRow]),
        windows=await _rows(source, _WINDOWS, list[WindowRow]),
        forecasts=await _rows(source, _FORECASTS, list[ForecastRow]),
    )


async def _caught_up(source: SocketSource, position: Mapping[TopicPartition, int], deadline_s: float) -> None:
    why = "no answer"
    async with in_time(deadline_s, lambda: f"the read model is not up to date: {why}"):
        while True:
            try:
                await source.query("SELECT 1", min_position=position)
                return
            except QueryUnavailable as error:
                why = str(error)
                await asyncio.sleep(error.retry_after_s or _RETRY_S)


async def _rows(source: SocketSource, sql: str, shape: Any) -> Any:
    answer = await source.query(sql)
    return msgspec.json.decode(answer.rows, type=shape)
