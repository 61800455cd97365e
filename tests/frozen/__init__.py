"""Frozen answers of the program and frozen results of its engine: no code change may alter them unnoticed.

The answers come from a fixed environment: this package has its own clock, program version and price catalog.
"""
