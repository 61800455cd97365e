"""A sample fleet with a month of history, loaded, priced, attributed and reported like real data."""
