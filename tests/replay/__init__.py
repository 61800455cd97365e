"""Turns a described fleet into what a real Prometheus would have scraped, as text, TSDB blocks or arrays."""
