"""The store: one DuckDB file with collected data and results."""
