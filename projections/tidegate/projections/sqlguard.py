"""Lets exactly one SELECT over the read model through; everything else is refused before the database.

The kind of a statement is not enough: DuckDB 2 calls `WITH a AS (INSERT … RETURNING *) SELECT …` a SELECT
and runs it. So the guard takes the tree from DuckDB's own parser, run in an empty database that is locked,
and lets only known kinds of nodes, tables and table functions pass.
"""

from collections.abc import Iterator
from threading import Lock
from typing import Any

import duckdb
import msgspec

from tidegate.projections.ddl import relation_names
from tidegate.projections.errors import SqlRefused

MAX_SQL_BYTES = 64 * 1024

Node = dict[str, Any]

STRUCTURE = frozenset(
    {
        *("SELECT_NODE", "SET_OPERATION_NODE", "RECURSIVE_CTE_NODE", "CTE_NODE"),
        *(
            "BASE_TABLE",
            "SUBQUERY",
            "JOIN",
            "TABLE_FUNCTION",
            "EXPRESSION_LIST",
            "EMPTY",
            "PIVOT",
            "SHOW_REF",
        ),
        *("ORDER_MODIFIER", "LIMIT_MODIFIER", "LIMIT_PERCENT_MODIFIER", "DISTINCT_MODIFIER"),
        *("ORDER_DEFAULT", "ASCENDING", "DESCENDING"),
    }
)
"""Query nodes, table references, modifiers and directions. What is not here writes, or is too new to be judged."""

EXPRESSIONS = frozenset(
    {
        *("BETWEEN", "CASE", "CAST", "COLLATE", "COLUMN_REF", "COMPARISON", "CONJUNCTION", "CONSTANT"),
        *("FUNCTION", "LAMBDA", "LAMBDA_REF", "OPERATOR", "PARAMETER", "POSITIONAL_REFERENCE", "STAR"),
        *("SUBQUERY", "TYPE", "WINDOW"),
    }
)
TABLE_FUNCTIONS = frozenset({"range", "generate_series", "unnest", "json_each", "json_tree"})
CATALOG = frozenset({"columns", "tables", "views"})
"""What may be read of information_schema: names and types, no paths and no settings."""

DENIED_FUNCTIONS = frozenset(
    {
        *("getenv", "current_setting", "getvariable", "current_query", "write_log", "sleep_ms", "stats"),
        *("nextval", "currval", "setval", "setseed", "in_search_path", "parse_duckdb_log_message"),
        *("json_execute_serialized_sql", "json_serialize_plan", "json_deserialize_sql"),
        # These build values of any length beside the memory limit (measured: 5.8 GB under a limit of 256 MB).
        *("repeat", "lpad", "rpad", "bar", "printf", "format", "list_resize", "array_resize"),
    }
)
DENIED_PREFIXES = ("pg_", "duckdb_", "pragma_", "sqlite_", "read_", "parquet_", "__")

_PARSE = "SELECT json_serialize_sql($1, skip_empty := true, skip_null := true)"
_decode = msgspec.json.Decoder(Node).decode


class SqlGuard:
    """Judges query texts. Safe for concurrent use."""

    def __init__(self) -> None:
        self._parser = duckdb.connect(
            ":memory:",
            config={
                "enable_external_access": False,
                "threads": 1,
                "async_threads": 0,
                "lock_configuration": True,
            },
        )
        self.alone = Lock()
        """Held by whoever works in the parser's database, and while this process forks."""

    def check(self, sql: str) -> None:
        """Return when `sql` is exactly one SELECT over the read model. Raises SqlRefused."""
        if len(sql.encode("utf-8", "surrogatepass")) > MAX_SQL_BYTES:
            raise SqlRefused(f"the query is longer than {MAX_SQL_BYTES} bytes")
        statements = self._parse(sql)
        if len(statements) != 1:
            raise SqlRefused(f"exactly one SELECT is allowed, the text holds {len(statements)} statements")
        nodes = list(_walk(statements[0]))
        ctes = {str(name) for node in nodes for name in _cte_names(node)}
        for name in ctes:
            _check_name("common table expression", name)
        for node in nodes:
            _check_node(node, ctes)

    def close(self) -> None:
        """Close the parser's database."""
        self._parser.close()

    def _parse(self, sql: str) -> list[Node]:
        try:
            with self.alone:
                row = self._parser.execute(_PARSE, [sql]).fetchone()
        except (duckdb.Error, UnicodeError) as error:
            raise SqlRefused(f"the query cannot be parsed: {error}") from error
        answer = _decode(row[0]) if row else {}
        if answer.get("error", True):
            raise SqlRefused(f"only one SELECT is allowed: {answer.get('error_message', 'cannot be parsed')}")
        return list(answer.get("statements", ()))


def _walk(root: Any) -> Iterator[Node]:
    """Every object of the tree. Not recursive: the depth of the text is the caller's."""
    waiting = [root]
    while waiting:
        item = waiting.pop()
        if isinstance(item, dict):
            yield item
            waiting += item.values()
        elif isinstance(item, list):
            waiting += item


def _cte_names(node: Node) -> Iterator[str]:
    ctes = node.get("cte_map")
    if isinstance(ctes, dict):
        for entry in ctes.get("map", ()):
            yield str(entry["key"]).casefold()


def _check_node(node: Node, ctes: set[str]) -> None:
    kind = node.get("type")
    if not isinstance(kind, str):
        return
    expression = node.get("class")
    if expression is None:
        if kind not in STRUCTURE:
            raise SqlRefused(f"{kind.lower().replace('_', ' ')} is not allowed in a query")
        _check_relation(kind, node, ctes)
    elif expression not in EXPRESSIONS:
        raise SqlRefused(f"{kind.lower().replace('_', ' ')} is not allowed in a query")
    elif "function_name" in node:
        _check_function(str(node["function_name"]).casefold())


def _check_relation(kind: str, node: Node, ctes: set[str]) -> None:
    if kind == "BASE_TABLE":
        _check_table(node, ctes)
    elif kind == "TABLE_FUNCTION":
        name = str(node.get("function", {}).get("function_name", "")).casefold()
        if name not in TABLE_FUNCTIONS:
            raise SqlRefused(f"table function {name!r} is not allowed")
    elif kind == "SHOW_REF" and node.get("show_type") not in {"DESCRIBE", "SUMMARY"}:
        raise SqlRefused("SHOW is not allowed; ask information_schema.tables")


def _check_table(node: Node, ctes: set[str]) -> None:
    catalog, schema = node.get("catalog_name", ""), str(node.get("schema_name", "")).casefold()
    name = str(node.get("table_name", "")).casefold()
    if not catalog and schema in {"", "main"} and (name in relation_names() or name in ctes):
        return
    if not catalog and schema == "information_schema" and name in CATALOG:
        return
    raise SqlRefused(f"{name!r} is no table or view of the read model")


def _check_function(name: str) -> None:
    if name in DENIED_FUNCTIONS:
        raise SqlRefused(f"function {name!r} is not allowed")
    _check_name("function", name)


def _check_name(what: str, name: str) -> None:
    if name.startswith(DENIED_PREFIXES):
        raise SqlRefused(f"{what} {name!r} is not allowed")
