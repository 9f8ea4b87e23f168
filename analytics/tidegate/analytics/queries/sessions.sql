-- title: Sessions, the newest first
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT active from this time on, in nanoseconds
-- brief: session, last_at=last, requests=reqs, failed, failed_over=over, last_target=target, ledger_nanousd=$
SELECT
    tenant, session, first_at, last_at, requests, completed, refused, failed, cancelled, lost,
    attempts, failed_over, routes, targets, last_target, unpriced, ledger_nanousd
FROM v_sessions
WHERE ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR last_ns >= $since_ns)
ORDER BY last_ns DESC, tenant, session
