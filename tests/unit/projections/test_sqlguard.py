"""Which texts reach the database: exactly one SELECT over the read model, and nothing else."""

from collections.abc import Iterator

import pytest

from tidegate.projections.errors import SqlRefused
from tidegate.projections.sqlguard import MAX_SQL_BYTES, SqlGuard

HOSTILE = {
    "copy out": "COPY r_requests TO '/tmp/x.csv'",
    "copy in": "COPY r_requests FROM '/tmp/x.csv'",
    "copy of a query": "COPY (SELECT 1) TO '/tmp/x'",
    "attach": "ATTACH '/tmp/other.db' AS other",
    "detach": "DETACH other",
    "use": "USE other",
    "install": "INSTALL httpfs",
    "load": "LOAD httpfs",
    "set": "SET memory_limit = '10GB'",
    "set variable": "SET VARIABLE x = 1",
    "reset": "RESET lock_configuration",
    "pragma": "PRAGMA database_list",
    "call": "CALL pragma_version()",
    "checkpoint": "CHECKPOINT",
    "force checkpoint as a table": "SELECT * FROM force_checkpoint()",
    "create secret": "CREATE SECRET s (TYPE s3, KEY_ID 'a', SECRET 'b')",
    "create table": "CREATE TEMP TABLE x AS SELECT 1",
    "create view": "CREATE OR REPLACE VIEW v_spend AS SELECT 1",
    "create macro": "CREATE MACRO m(a) AS a + 1",
    "insert": "INSERT INTO positions VALUES ('x', 0, 0)",
    "update": "UPDATE positions SET next_offset = 0",
    "delete": "DELETE FROM r_requests",
    "truncate": "TRUNCATE r_requests",
    "drop": "DROP TABLE r_requests",
    "alter": "ALTER TABLE r_requests ADD COLUMN x INT",
    "merge": "MERGE INTO marks USING positions ON TRUE WHEN MATCHED THEN DELETE",
    "comment on": "COMMENT ON TABLE r_requests IS 'x'",
    "vacuum": "VACUUM",
    "analyze": "ANALYZE",
    "export": "EXPORT DATABASE '/tmp/x'",
    "import": "IMPORT DATABASE '/tmp/x'",
    "prepare": "PREPARE p AS SELECT 1",
    "execute": "EXECUTE p",
    "explain": "EXPLAIN SELECT 1",
    "explain analyze a delete": "EXPLAIN ANALYZE DELETE FROM r_requests",
    "begin": "BEGIN TRANSACTION",
    "commit": "COMMIT",
    "leaving the read-only transaction": "COMMIT; DELETE FROM r_requests",
    "two selects": "SELECT 1; SELECT 2",
    "a select and a delete": "SELECT 1; DELETE FROM r_requests; --",
    "insert inside a select": "WITH a AS (INSERT INTO positions VALUES ('x', 0, 0) RETURNING *) SELECT * FROM a",
    "delete inside a select": "WITH a AS (DELETE FROM r_requests RETURNING *) SELECT * FROM a",
    "update inside a select": "WITH a AS (UPDATE positions SET next_offset = 0 RETURNING *) SELECT * FROM a",
    "copy inside a select": "WITH a AS (COPY r_requests TO '/tmp/x') SELECT * FROM a",
    "delete deep inside a select": (
        "SELECT * FROM (WITH a AS (DELETE FROM r_requests RETURNING *) SELECT * FROM a) AS x"
    ),
    "read a csv": "SELECT * FROM read_csv('/etc/passwd')",
    "read a text": "SELECT * FROM read_text('/etc/passwd')",
    "read a blob": "SELECT * FROM read_blob('/etc/passwd')",
    "read json": "SELECT * FROM read_json('/tmp/x.json')",
    "read parquet": "SELECT * FROM read_parquet('/tmp/x.parquet')",
    "read another database": "SELECT * FROM read_duckdb('/tmp/x.db')",
    "a file as a table": "SELECT * FROM '/etc/passwd'",
    "a file as a table in a join": "SELECT * FROM v_spend JOIN '/tmp/x.csv' ON TRUE",
    "glob": "SELECT * FROM glob('/*')",
    "sniff": "SELECT * FROM sniff_csv('/etc/passwd')",
    "a query in a string": "SELECT * FROM query('DELETE FROM r_requests')",
    "a table in a string": "SELECT * FROM query_table('duckdb_secrets')",
    "a serialized query": "SELECT * FROM json_execute_serialized_sql('{}')",
    "secrets": "SELECT * FROM duckdb_secrets()",
    "settings": "SELECT * FROM duckdb_settings()",
    "settings as a table": "SELECT * FROM pg_catalog.pg_settings",
    "databases": "SELECT * FROM duckdb_databases",
    "databases behind a name of the same": (
        "WITH duckdb_databases AS (SELECT 1) SELECT * FROM duckdb_databases"
    ),
    "the path of the file": "SELECT * FROM pragma_database_list",
    "the shell's catalog": "SELECT * FROM sqlite_master",
    "logs": "SELECT * FROM duckdb_logs()",
    "switch logging on": "SELECT * FROM enable_logging()",
    "the environment": "SELECT getenv('HOME')",
    "the environment in capitals": "SELECT GETENV('HOME')",
    "the environment by its full name": "SELECT system.main.getenv('HOME')",
    "a setting": "SELECT current_setting('temp_directory')",
    "a variable": "SELECT getvariable('x')",
    "a sequence": "SELECT nextval('s')",
    "a log entry": "SELECT write_log('x')",
    "sleep": "SELECT sleep_ms(100000)",
    "sleep as postgres has it": "SELECT pg_sleep(100)",
    "a string without end": "SELECT repeat('x', 3000000000)",
    "padding without end": "SELECT lpad('x', 1000000000, 'y')",
    "denied function in a window": "SELECT sum(length(repeat('x', 9))) OVER () FROM v_spend",
    "denied function in a subquery": "SELECT * FROM v_spend WHERE tenant IN (SELECT getenv('x'))",
    "denied function in an order": "SELECT 1 ORDER BY getenv('x')",
    "show": "SHOW TABLES",
    "show all": "SHOW ALL TABLES",
    "a pivot that first creates a type": "PIVOT v_spend ON tenant USING sum(attempts)",
    "another catalog": "SELECT * FROM other.main.v_spend",
    "another schema": "SELECT * FROM other.v_spend",
    "an unknown table": "SELECT * FROM v_nothing",
    "nothing": "",
    "only a comment": "-- SELECT 1",
    "no sql": "hello",
    "half a query": "SELECT * FROM (",
    "too deep": "SELECT " + "(" * 20_000 + "1" + ")" * 20_000,
    "too long": "SELECT '" + "x" * MAX_SQL_BYTES + "'",
    "half a character": "SELECT '\ud800'",
    "a null byte and a delete": "SELECT 1\x00; DELETE FROM r_requests",
}

HARMLESS = {
    "a view": "SELECT * FROM v_spend",
    "a table": "SELECT count(*) FROM r_requests",
    "schema named": "SELECT * FROM main.v_spend",
    "from first": "FROM v_spend",
    "capitals": "SELECT * FROM V_SPEND",
    "a semicolon at the end": "SELECT 1;",
    "comments around": "/* x; DELETE */ SELECT 1 -- ; DROP",
    "a semicolon in a string": "SELECT ';DELETE FROM r_requests;'",
    "values": "VALUES (1), (2)",
    "parameters": "SELECT * FROM v_spend WHERE tenant = $tenant AND day >= $day",
    "common table expressions": "WITH a AS (SELECT 1 AS x), b AS (SELECT * FROM a) SELECT * FROM b",
    "recursive": "WITH RECURSIVE a AS (SELECT 1 x UNION ALL SELECT x + 1 FROM a WHERE x < 5) SELECT * FROM a",
    "join and group": (
        "SELECT l.tenant, sum(l.ledger_nanousd) FROM v_ledger l LEFT JOIN v_requests r USING (request)"
        " GROUP BY ALL HAVING count(*) > 1 ORDER BY 2 DESC NULLS LAST LIMIT 10 OFFSET 5"
    ),
    "set operations": "SELECT tenant FROM v_spend UNION ALL BY NAME SELECT tenant FROM v_ledger",
    "window": "SELECT row_number() OVER (PARTITION BY tenant ORDER BY day) FROM v_spend QUALIFY TRUE",
    "subqueries": "SELECT * FROM v_spend WHERE tenant IN (SELECT tenant FROM v_ledger) AND EXISTS (SELECT 1)",
    "lists, structs, lambdas": "SELECT [x FOR x IN [1, 2]], {'a': 1}.a, list_transform([1], lambda x: x + 1)",
    "series": "SELECT * FROM generate_series(1, 3)",
    "unnest": "SELECT unnest([1, 2])",
    "casts and dates": "SELECT CAST(1 AS VARCHAR), DATE '2027-01-01', INTERVAL 1 DAY, 1::DECIMAL(10, 2)",
    "distinct on": "SELECT DISTINCT ON (tenant) * FROM v_spend",
    "percent limit": "SELECT * FROM v_spend LIMIT 10%",
    "sample": "SELECT * FROM v_spend USING SAMPLE 5",
    "pivot with its values": "SELECT * FROM v_spend PIVOT (sum(attempts) FOR tenant IN ('a', 'b'))",
    "unpivot": "UNPIVOT v_spend ON attempts, unpriced INTO NAME what VALUE n",
    "describe": "DESCRIBE v_spend",
    "summarize": "SUMMARIZE v_spend",
    "names of columns": "SELECT column_name FROM information_schema.columns WHERE table_name = 'v_spend'",
    "a column named as a function": "SELECT getenv FROM (SELECT 1 AS getenv)",
}


@pytest.fixture(scope="module")
def guard() -> Iterator[SqlGuard]:
    guard = SqlGuard()
    yield guard
    guard.close()


@pytest.mark.parametrize("sql", HOSTILE.values(), ids=HOSTILE.keys())
def test_anything_but_one_select_over_the_read_model_is_refused(guard: SqlGuard, sql: str) -> None:
    with pytest.raises(SqlRefused):
        guard.check(sql)


@pytest.mark.parametrize("sql", HARMLESS.values(), ids=HARMLESS.keys())
def test_questions_pass(guard: SqlGuard, sql: str) -> None:
    guard.check(sql)


def test_a_refusal_names_what_is_wrong(guard: SqlGuard) -> None:
    with pytest.raises(SqlRefused, match="read_csv"):
        guard.check("SELECT * FROM read_csv('/etc/passwd')")
    with pytest.raises(SqlRefused, match="2 statements"):
        guard.check("SELECT 1; SELECT 2")
    with pytest.raises(SqlRefused, match="insert query node"):
        guard.check("WITH a AS (INSERT INTO marks VALUES (1) RETURNING *) SELECT * FROM a")
