"""Models of the seed systems, kept as named, tested alternatives: for comparison, never mixed with ours."""
