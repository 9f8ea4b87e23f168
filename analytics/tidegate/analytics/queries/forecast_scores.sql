-- title: Forecasts of quota windows: scores
-- param: since_ns BIGINT forecasts from this time on, in nanoseconds
-- brief: pool, window_id=window, decided, exhausted=dry, brier=Brier, base_rate_brier=base, ece=ECE, false_alarms=false, missed, held_80=80 %, held_90=90 %
WITH told AS (
    SELECT
        *,
        p_exhaust - CAST(exhausted AS INTEGER) AS error,
        least(floor(p_exhaust * 10), 9) AS tenth,
        final_used - used AS rest,
        quota_limit - used AS most
    FROM v_forecasts
    WHERE $since_ns::BIGINT IS NULL OR believed_ns >= $since_ns
),
each_and_all AS (
    SELECT * FROM told
    UNION ALL
    SELECT * REPLACE ('all' AS pool, '' AS window_id) FROM told
),
by_tenth AS (
    SELECT pool, window_id, abs(sum(error)) AS apart FROM each_and_all GROUP BY pool, window_id, tenth
),
apart AS (
    SELECT pool, window_id, sum(apart) AS apart FROM by_tenth GROUP BY pool, window_id
)
SELECT
    pool, window_id,
    count(*) AS forecasts,
    count(exhausted) AS decided,
    count(*) FILTER (WHERE exhausted) AS exhausted,
    avg(error * error) AS brier,
    (count(*) FILTER (WHERE exhausted)) * (count(*) FILTER (WHERE NOT exhausted))
        / nullif(count(exhausted), 0) ** 2 AS base_rate_brier,
    any_value(apart.apart) / nullif(count(exhausted), 0) AS ece,
    avg(CAST(will_exhaust AS INTEGER)) FILTER (WHERE NOT exhausted) AS false_alarms,
    avg(CAST(NOT will_exhaust AS INTEGER)) FILTER (WHERE exhausted) AS missed,
    count(remaining_p95) FILTER (WHERE rest IS NOT NULL) AS intervals,
    -- An interval that begins beyond the limit holds what ended there.
    avg(CAST(rest BETWEEN least(remaining_p10, most) AND remaining_p90 AS INTEGER))
        FILTER (WHERE remaining_p95 IS NOT NULL) AS held_80,
    avg(CAST(rest BETWEEN least(remaining_p05, most) AND remaining_p95 AS INTEGER))
        FILTER (WHERE remaining_p95 IS NOT NULL) AS held_90
FROM each_and_all
JOIN apart USING (pool, window_id)
GROUP BY pool, window_id
ORDER BY pool = 'all' AND window_id = '' DESC, pool, window_id
