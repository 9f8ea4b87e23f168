-- title: The candidates of one decision of this tenant
-- audience: tenant
-- param: tenant VARCHAR required who asks
-- param: id VARCHAR required decision or request
-- brief: target, rank, reason, price_nanousd=price $, cash_nanousd=cash $
SELECT
    decision, target, rank, chosen, reason, detail, grade,
    price_nanousd, cash_nanousd, quota_nanousd, retry_nanousd, time_nanousd, switch_nanousd
FROM v_candidates
WHERE tenant = $tenant AND (decision = $id OR request = $id)
ORDER BY decision, rank NULLS LAST, target
