-- title: Attempts that were started and are not settled
SELECT started_at, attempt, request, tenant, route, target, pool, source FROM v_unsettled ORDER BY started_ns
