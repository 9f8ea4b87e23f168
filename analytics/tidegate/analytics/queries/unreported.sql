-- title: Settlements no provider has confirmed
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT settled from this time on, in nanoseconds
-- brief: attempt, target, basis, ledger_nanousd=$
SELECT settled_at, attempt, request, tenant, route, target, basis, outcome, ledger_nanousd
FROM v_unreported
WHERE ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR settled_ns >= $since_ns)
ORDER BY settled_ns
