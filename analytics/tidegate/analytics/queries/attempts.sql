-- title: The upstream calls of a request
-- param: id VARCHAR required request
SELECT * FROM v_attempts WHERE request = $id ORDER BY attempt_index, started_ns
