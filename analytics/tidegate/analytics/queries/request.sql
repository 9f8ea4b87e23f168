-- title: One request
-- param: id VARCHAR required request
-- brief: admitted_at=admitted, route, outcome, code, target, attempts, ledger_nanousd=ledger $
SELECT * FROM v_requests WHERE request = $id
