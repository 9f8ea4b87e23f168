-- title: The upstream calls of a request
-- param: id VARCHAR required request
-- brief: attempt_index=#, target, outcome, cause, basis, output=out, ledger_nanousd=ledger $
SELECT * FROM v_attempts WHERE request = $id ORDER BY attempt_index, started_ns
