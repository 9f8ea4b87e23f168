-- title: Every candidate of a decision: verdict, rank and price parts
-- param: id VARCHAR required decision or request
-- brief: target, rank, reason, price_nanousd=price $, cash_nanousd=cash $, p_exhaust=P(exhausted)
SELECT
    target, pool, rank, chosen, reason, detail, grade,
    price_nanousd, cash_nanousd, quota_nanousd, retry_nanousd, time_nanousd, switch_nanousd,
    expected_cached_tokens, expected_output_tokens, p_exhaust, in_flight, propensity,
    target_version, pool_version, decision
FROM v_candidates
WHERE decision = $id OR request = $id
ORDER BY decision, rank NULLS LAST, target
