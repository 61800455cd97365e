"""Formulas broken on purpose, one at a time: the figure tests of `make test` have to notice each of them.

`python -m tests.mutants [NAME…]` runs the tests that a mutant names over a copy of the checkout in which it is applied.
"""
