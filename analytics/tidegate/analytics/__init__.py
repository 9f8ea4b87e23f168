"""Questions to the log and to its read models: SQL, reports, replay, reconciliation."""
