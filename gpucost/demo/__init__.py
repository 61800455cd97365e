"""A sample fleet with two months of history and a bill, loaded, priced, attributed and reported like real data."""
