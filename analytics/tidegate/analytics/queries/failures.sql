-- title: Failed attempts by target and cause, and how many of them failover masked
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT failed from this time on, in nanoseconds
-- brief: target, cause, rule, status, failures=n, masked
SELECT
    target, cause, status, rule,
    count(*) AS failures,
    count(*) FILTER (WHERE masked) AS masked,
    max(failed_at) AS last_at
FROM v_failures
WHERE ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR failed_ns >= $since_ns)
GROUP BY target, cause, status, rule
ORDER BY failures DESC, target, cause, status, rule
