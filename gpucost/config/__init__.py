"""The configuration: what it may hold (model), and how it is read (load)."""
