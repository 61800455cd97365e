"""The store: one DuckDB file with collected data and results."""

from gpucost.store.connection import Store
from gpucost.store.schema import SourceInfo, StoreInfo, TableInfo

__all__ = ["SourceInfo", "Store", "StoreInfo", "TableInfo"]
