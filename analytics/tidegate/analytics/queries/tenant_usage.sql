-- title: What this tenant used and what it cost, per day and route
-- audience: tenant
-- param: tenant VARCHAR required who asks
-- param: since_ns BIGINT from the day of this time on, in nanoseconds
-- brief: day, route, attempts, input_uncached=in, cache_read=cached, output=out, ledger_nanousd=ledger $
SELECT
    day, route,
    sum(attempts) AS attempts,
    sum(unpriced) AS unpriced,
    sum(input_uncached) AS input_uncached,
    sum(cache_read) AS cache_read,
    sum(cache_write_5m) AS cache_write_5m,
    sum(cache_write_1h) AS cache_write_1h,
    sum(output) AS output,
    sum(ledger_nanousd) AS ledger_nanousd
FROM v_spend
WHERE tenant = $tenant AND ($since_ns::BIGINT IS NULL OR day >= CAST(make_timestamp($since_ns // 1000) AS DATE))
GROUP BY day, route
ORDER BY day, route
