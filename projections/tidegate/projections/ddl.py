"""The whole schema as text, the names in it, and the digest that says which schema a file has."""

import hashlib
import re
from functools import cache
from importlib import resources

from tidegate.projections.tables import BOOKKEEPING_DDL, TABLES

_CREATED = re.compile(r"^CREATE (?:TABLE|VIEW) (\w+)", re.MULTILINE)


@cache
def schema_sql() -> str:
    """Every statement that makes an empty database ours."""
    views = resources.files("tidegate.projections").joinpath("schema/views.sql").read_text("utf-8")
    statements = [*BOOKKEEPING_DDL, *(table.ddl() for table in TABLES)]
    return ";\n".join(statements) + ";\n" + views


@cache
def schema_digest() -> str:
    """Changes with every table, column and view: a file with another digest is rebuilt, never migrated."""
    return hashlib.sha256(schema_sql().encode()).hexdigest()


@cache
def relation_names() -> frozenset[str]:
    """Tables and views of the read model."""
    return frozenset(_CREATED.findall(schema_sql()))
