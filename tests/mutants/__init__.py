"""Rules broken on purpose, one at a time: the fast tests have to notice each of them."""
