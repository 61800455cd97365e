"""On-demand usage moved to spot, or the reverse: what interruptions make of a spot price, and what history says of it."""
