"""Units of work: what trainers, serving engines and experiment trackers say they did. One module per source."""
