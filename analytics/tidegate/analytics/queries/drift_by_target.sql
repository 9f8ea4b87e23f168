-- title: Planned and actual cost per target, with the mean error
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT settled from this time on, in nanoseconds
-- brief: target, attempts, failed_over=over, expected_nanousd=planned $, actual_nanousd=actual $, relative_error=error
SELECT
    actual_target AS target,
    count(*) AS attempts,
    count(*) FILTER (WHERE failed_over) AS failed_over,
    count(error_nanousd) AS compared,
    sum(expected_nanousd) FILTER (WHERE error_nanousd IS NOT NULL) AS expected_nanousd,
    sum(ledger_nanousd) FILTER (WHERE error_nanousd IS NOT NULL) AS actual_nanousd,
    sum(error_nanousd) AS error_nanousd,
    avg(error_nanousd) AS mean_error_nanousd,
    avg(abs(error_nanousd)) AS mean_abs_error_nanousd,
    sum(error_nanousd) / nullif(sum(expected_nanousd) FILTER (WHERE error_nanousd IS NOT NULL), 0)
        AS relative_error,
    avg(output_tokens - expected_output_tokens) AS mean_output_error_tokens,
    avg(cached_tokens - expected_cached_tokens) AS mean_cached_error_tokens
FROM v_drift
WHERE outcome = 'completed'
    AND ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR settled_ns >= $since_ns)
GROUP BY actual_target
ORDER BY abs(sum(error_nanousd)) DESC NULLS LAST, target
