"""How the price of each node is split into GPU, CPU and memory, by the cost basis; nothing with the basis `node`."""
