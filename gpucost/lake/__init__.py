"""Lakes: raw data and figures as Parquet files in a folder or a bucket (docs/lake.md)."""
