"""Series: a report's period in steps, as charts draw it."""
