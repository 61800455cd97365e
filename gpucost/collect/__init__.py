"""Collectors: one file per source. They write raw tables and interpret nothing."""
