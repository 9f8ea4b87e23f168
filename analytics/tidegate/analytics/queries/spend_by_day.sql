-- title: What was spent per day, tenant and target
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT from the day of this time on, in nanoseconds
-- brief: day, tenant, target, attempts, output=out tokens, ledger_nanousd=ledger $
SELECT
    day, tenant, target,
    sum(attempts) AS attempts,
    sum(unreported) AS unreported,
    sum(unpriced) AS unpriced,
    sum(input_uncached) AS input_uncached,
    sum(cache_read) AS cache_read,
    sum(output) AS output,
    sum(settled_nanousd) AS settled_nanousd,
    sum(delta_nanousd) AS delta_nanousd,
    sum(ledger_nanousd) AS ledger_nanousd
FROM v_spend
WHERE ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR day >= CAST(make_timestamp($since_ns // 1000) AS DATE))
GROUP BY day, tenant, target
ORDER BY day, tenant, target
