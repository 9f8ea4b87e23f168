"""The event log: one port, three adapters."""
