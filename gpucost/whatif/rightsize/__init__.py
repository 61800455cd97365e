"""Other GPU models and counts for the same work, by memory, measured activity and speed."""
