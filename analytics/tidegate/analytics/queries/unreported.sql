-- title: Settlements no provider has confirmed
SELECT settled_at, attempt, request, tenant, route, target, basis, outcome, ledger_nanousd
FROM v_unreported
ORDER BY settled_ns
