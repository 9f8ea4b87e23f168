"""What one projector may use: memory, and the bounds of every query."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the writer process; DuckDB's own sizes are decimal megabytes."""

    memory_mb: int = 512
    """Buffers of the writer."""
    temp_mb: int = 1_024
    """Spill files of one query; the writer spills nothing."""
    query_slots: int = 4
    """Queries that may run at once, each in a process; others wait for a slot within their own timeout."""
    query_memory_mb: int = 128
    """Sorts and hash tables of one query: what is larger is spilled, or refused."""
    query_process_mb: int = 256
    """All that a query's process may allocate: values are built beside the database's own limits."""
    query_timeout_s: float = 30.0
    """Longest a query may run, whatever it asks for."""
    query_rows: int = 10_000
    query_answer_bytes: int = 16_000_000
    """An encoded answer larger than this is refused."""
    position_wait_s: float = 2.0
    """Longest a query waits for the position it asks for."""
