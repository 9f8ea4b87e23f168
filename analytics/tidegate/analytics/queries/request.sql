-- title: One request
-- param: id VARCHAR required request
SELECT * FROM v_requests WHERE request = $id
