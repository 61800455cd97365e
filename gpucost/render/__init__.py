"""A report's view as terminal text, Markdown, HTML, JSON, CSV and Parquet: renderers compute no money."""
