-- title: Forecasts over time beside what happened
-- param: since_ns BIGINT forecasts from this time on, in nanoseconds
-- brief: pool, window_id=window, believed_at=at, used, p_exhaust=P(dry), will_exhaust=said, exhausts_p50_at=expected, exhausted_at=dry
SELECT
    pool, window_id, believed_at, believed_ns, period, period_start_ns,
    make_timestamp(period_start_ns // 1000) AS opened_at, resets_at_ns, used, quota_limit, p_exhaust, will_exhaust,
    exhausts_p50_at, exhausts_p10_ns, exhausts_p50_ns, exhausts_p90_ns,
    remaining_p05, remaining_p10, remaining_p50, remaining_p90, remaining_p95,
    exhausted_at, exhausted_ns, final_used
FROM v_forecasts
WHERE $since_ns::BIGINT IS NULL OR believed_ns >= $since_ns
ORDER BY believed_ns DESC, pool, window_id
