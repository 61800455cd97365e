"""Split each node price into GPU, CPU and memory by the cost basis; skipped with the basis `node`."""
