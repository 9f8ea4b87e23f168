-- title: All sessions in one line
-- param: tenant VARCHAR only this tenant
-- param: since_ns BIGINT active from this time on, in nanoseconds
-- brief: sessions, requests, completed, refused, failed, failed_over=over, ledger_nanousd=ledger $
SELECT
    count(*) AS sessions,
    sum(requests) AS requests,
    sum(completed) AS completed,
    sum(refused) AS refused,
    sum(failed) AS failed,
    sum(cancelled) AS cancelled,
    sum(lost) AS lost,
    sum(attempts) AS attempts,
    sum(failed_over) AS failed_over,
    sum(unpriced) AS unpriced,
    sum(ledger_nanousd) AS ledger_nanousd
FROM v_sessions
WHERE ($tenant::VARCHAR IS NULL OR tenant = $tenant)
    AND ($since_ns::BIGINT IS NULL OR last_ns >= $since_ns)
