-- title: One decision, by its id or its request's
-- param: id VARCHAR required decision or request
SELECT * FROM v_decisions WHERE decision = $id OR request = $id ORDER BY decided_ns
