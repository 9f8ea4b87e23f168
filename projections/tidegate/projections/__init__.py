"""Read models: the event log folded into DuckDB tables, served as SQL by the one writer process."""
