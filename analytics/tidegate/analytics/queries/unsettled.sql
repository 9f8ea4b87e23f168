-- title: Attempts that were started and are not settled
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT started from this time on, in nanoseconds
-- brief: started_at=started, attempt, target, route
SELECT started_at, attempt, request, tenant, route, target, pool, source
FROM v_unsettled
WHERE ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR started_ns >= $since_ns)
ORDER BY started_ns
