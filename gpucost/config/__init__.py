"""The configuration: its schema (model) and how it is read (load)."""
