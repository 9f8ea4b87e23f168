-- title: Requests that were refused, by route and code
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT refused from this time on, in nanoseconds
-- brief: route, code, status, refusals, tenants, last_at=last
SELECT route, code, status, count(*) AS refusals, count(DISTINCT tenant) AS tenants, max(admitted_at) AS last_at
FROM v_requests
WHERE outcome = 'refused'
    AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR admitted_ns >= $since_ns)
GROUP BY route, code, status
ORDER BY refusals DESC, route, code
