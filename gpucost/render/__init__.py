"""Renderers of a report's view: terminal, Markdown, HTML, JSON, CSV and Parquet. They compute no money."""
