-- title: Reliability: said and came true
-- param: since_ns BIGINT forecasts from this time on, in nanoseconds
-- brief: said_from=P from, said_to=to, forecasts, mean_p=mean P, frequency=came true
SELECT
    least(floor(p_exhaust * 10), 9) / 10 AS said_from,
    least(floor(p_exhaust * 10), 9) / 10 + 0.1 AS said_to,
    count(*) AS forecasts,
    avg(p_exhaust) AS mean_p,
    avg(CAST(exhausted AS INTEGER)) AS frequency
FROM v_forecasts
WHERE exhausted IS NOT NULL
    AND ($since_ns::BIGINT IS NULL OR believed_ns >= $since_ns)
GROUP BY ALL
ORDER BY said_from
