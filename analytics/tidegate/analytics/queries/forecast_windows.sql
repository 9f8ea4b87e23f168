-- title: Windows: when said to run dry, and when dry
-- param: since_ns BIGINT forecasts from this time on, in nanoseconds
-- brief: pool, window_id=window, resets_at=resets, final_used=used, quota_limit=limit, foreseen_at=foreseen, exhausted_at=dry, lead_minutes=lead min
SELECT
    pool, window_id, period,
    min(period_start_ns) AS period_start_ns,
    any_value(resets_at) AS resets_at,
    max(quota_limit) AS quota_limit,
    max(final_used) AS final_used,
    count(*) AS forecasts,
    max(p_exhaust) AS highest_p,
    make_timestamp((min(believed_ns) FILTER (WHERE will_exhaust)) // 1000) AS foreseen_at,
    max(exhausted_at) AS exhausted_at,
    (max(exhausted_ns) - min(believed_ns) FILTER (WHERE will_exhaust)) / 60e9 AS lead_minutes,
    bool_or(exhausted) AS exhausted
FROM v_forecasts
WHERE $since_ns::BIGINT IS NULL OR believed_ns >= $since_ns
GROUP BY pool, window_id, period
ORDER BY resets_at DESC, pool, window_id
