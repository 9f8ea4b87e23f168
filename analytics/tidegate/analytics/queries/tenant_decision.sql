-- title: One decision of this tenant
-- audience: tenant
-- param: tenant VARCHAR required who asks
-- param: id VARCHAR required decision or request
-- brief: decision, route, strategy, chosen, price_nanousd=price $
SELECT
    decision, request, session, route, decided_ns, strategy, chosen, candidates, admitted,
    price_nanousd, next_price_nanousd, input_tokens, max_output_tokens, retry_at_ns, decide_version
FROM v_decisions
WHERE tenant = $tenant AND (decision = $id OR request = $id)
ORDER BY decided_ns
