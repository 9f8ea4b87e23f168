-- title: Why candidates were not admitted
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT decided from this time on, in nanoseconds
SELECT target, reason, count(*) AS verdicts, count(DISTINCT request) AS requests
FROM v_candidates
WHERE reason IS NOT NULL
    AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR ts_ns >= $since_ns)
GROUP BY target, reason
ORDER BY verdicts DESC, target, reason
