"""What one projector may use: memory, threads, and the bounds of every query."""

import msgspec


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Bounds of the writer process; DuckDB's own sizes are decimal megabytes."""

    memory_mb: int = 512
    """Buffers of the whole process, ingest included."""
    temp_mb: int = 1_024
    """Spill files."""
    threads: int = 2
    query_slots: int = 4
    """Queries that may run at once; others wait for a slot within their own timeout."""
    query_memory_mb: int = 128
    """Sorts and hash tables of one query."""
    query_timeout_s: float = 30.0
    """Longest a query may run, whatever it asks for."""
    query_rows: int = 10_000
    query_answer_bytes: int = 16_000_000
    """An encoded answer larger than this is refused."""
    position_wait_s: float = 2.0
    """Longest a query waits for the position it asks for."""
