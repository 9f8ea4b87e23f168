-- title: What each target cost, and how much of it served nobody
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT settled from this time on, in nanoseconds
-- brief: target, attempts, wasted_attempts=wasted, unpriced, ledger_nanousd=ledger $, wasted_nanousd=wasted $
SELECT
    pool, target,
    count(*) AS attempts,
    count(*) FILTER (WHERE outcome <> 'completed') AS wasted_attempts,
    count(*) FILTER (WHERE ledger_nanousd IS NULL) AS unpriced,
    sum(ledger_nanousd) AS ledger_nanousd,
    sum(ledger_nanousd) FILTER (WHERE outcome <> 'completed') AS wasted_nanousd
FROM v_ledger
WHERE ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR settled_ns >= $since_ns)
GROUP BY pool, target
ORDER BY ledger_nanousd DESC NULLS LAST, target
