"""Turns a described fleet into the scrapes of a real Prometheus, as text, TSDB blocks or arrays."""
