"""A lake: raw data and figures as Parquet files in a folder or a bucket, attributed by tasks (docs/lake.md)."""
