-- title: What each tenant spent
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT from the day of this time on, in nanoseconds
SELECT
    tenant,
    sum(attempts) AS attempts,
    sum(unreported) AS unreported,
    sum(unpriced) AS unpriced,
    sum(ledger_nanousd) AS ledger_nanousd
FROM v_spend
WHERE ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR day >= CAST(make_timestamp($since_ns // 1000) AS DATE))
GROUP BY tenant
ORDER BY ledger_nanousd DESC NULLS LAST, tenant
