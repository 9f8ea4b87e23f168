-- title: Completed attempts whose cost was furthest from the plan
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT settled from this time on, in nanoseconds
-- brief: settled_at=settled, actual_target=target, expected_nanousd=planned $, ledger_nanousd=actual $, expected_output_tokens=out planned, output_tokens=out
SELECT
    settled_at, request, decision, route, planned_target, actual_target, failed_over, outcome,
    expected_nanousd, ledger_nanousd, error_nanousd,
    expected_output_tokens, output_tokens, expected_cached_tokens, cached_tokens
FROM v_drift
WHERE error_nanousd IS NOT NULL AND outcome = 'completed'
    AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR settled_ns >= $since_ns)
ORDER BY abs(error_nanousd) DESC, attempt
