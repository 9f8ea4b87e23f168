"""HTTP in, HTTP out: authenticates, asks the planner, calls upstream, relays, settles, records."""
