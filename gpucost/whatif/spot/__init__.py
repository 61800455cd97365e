"""On-demand usage moved to spot: prices, interruptions and advice."""
