"""Several pods on one GPU: time slicing, MPS or MIG, packed by what was measured."""
