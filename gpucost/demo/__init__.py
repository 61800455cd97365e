"""A sample fleet with two months of history and a bill.

It is loaded, priced, attributed and reported like real data. The fleet is a fixture, Parquet files in this
folder: ten weeks, whose times are seconds since a Monday. `python -m tests.sample` writes it.
"""
