"""The store: one DuckDB file that holds what was collected and what was made of it."""

from gpucost.store.connection import Store
from gpucost.store.schema import SourceInfo, StoreInfo, TableInfo

__all__ = ["SourceInfo", "Store", "StoreInfo", "TableInfo"]
