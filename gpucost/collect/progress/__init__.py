"""Units of work reported by trainers, serving engines and experiment trackers. One module per source."""
