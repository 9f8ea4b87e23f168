"""List prices that a config may name instead of writing them, and tables of prices from elsewhere."""
