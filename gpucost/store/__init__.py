"""The store: one DuckDB file with collected data and results."""

from .connection import Store
from .schema import SourceInfo, StoreInfo, TableInfo

__all__ = ["SourceInfo", "Store", "StoreInfo", "TableInfo"]
