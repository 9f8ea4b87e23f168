"""One module per role: what its process runs."""
