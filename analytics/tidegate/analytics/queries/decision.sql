-- title: One decision, by its id or its request's
-- param: id VARCHAR required decision or request
-- brief: decided_at=decided, strategy, chosen, candidates, admitted, price_nanousd=price $, next_price_nanousd=next $
SELECT * FROM v_decisions WHERE decision = $id OR request = $id ORDER BY decided_ns
