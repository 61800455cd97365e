"""Metrics from a Prometheus server: queries, parsing and error messages."""
