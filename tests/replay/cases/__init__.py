"""Fleets with exact figures, a folder each: fleet.json (format: tests/replay/fleet.py), prices.csv and expected.json."""
