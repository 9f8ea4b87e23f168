-- title: The requests of this tenant, the newest first
-- audience: tenant
-- param: tenant VARCHAR required who asks
-- param: since_ns BIGINT admitted from this time on, in nanoseconds
-- brief: admitted_at=admitted, request, route, outcome, ledger_nanousd=$
SELECT
    request, session, key_id, route, admitted_at, outcome, status, code, target, attempts,
    duration_ns, ttft_ns, unpriced, ledger_nanousd
FROM v_requests
WHERE tenant = $tenant AND ($since_ns::BIGINT IS NULL OR admitted_ns >= $since_ns)
ORDER BY admitted_ns DESC, request
