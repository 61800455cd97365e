"""Metrics out of a Prometheus server: what is asked for, how, and what went wrong."""
