"""The catalog that gpucost ships: list prices, instance types, GPU models and their spellings, MIG profiles, resources.

Inventory asks it what an instance type holds, price asks it what one costs.
"""

from __future__ import annotations

from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from gpucost.engine.local import run_stage
from gpucost.resources import pricing_dir

if TYPE_CHECKING:
    from duckdb import DuckDBPyConnection

# Temporary table -> the file in pricing/ it is read from; the .sql file beside this module has the table's name.
TABLES = {
    "catalog_prices": "prices.csv",
    "catalog_instances": "instances.csv",
    "gpu_models": "gpus.csv",
    "gpu_aliases": "gpu_aliases.csv",
    "mig_profiles": "mig_profiles.csv",
    "resources": "resources.csv",
    "claim_series": "claim_series.csv",
    "not_sold_on_demand": "not_sold_on_demand.csv",
}
COMPONENTS = {"catalog_components": "components.csv"}
INTERRUPTIONS = {"interruption_bands": "interruption.csv"}


def load_catalog(con: DuckDBPyConnection) -> None:
    """Create the catalog's temporary tables (the keys of TABLES) on this connection, where it has none."""
    _load(con, TABLES)


def load_components(con: DuckDBPyConnection) -> None:
    """Create `catalog_components`, the unit prices of an instance's parts, which only some cost bases read."""
    _load(con, COMPONENTS)


def load_interruptions(con: DuckDBPyConnection) -> None:
    """Create `interruption_bands`, how often spot instances are taken back, which no attribution reads."""
    _load(con, INTERRUPTIONS)


def _load(con: DuckDBPyConnection, tables: dict[str, str]) -> None:
    for table, name in tables.items():
        run_stage(con, __name__, table, {"path": str(pricing_dir() / name)})


@cache
def catalog_digest() -> str:
    """A digest of the files an attribution reads: it changes when any fact in them does."""
    digest = sha256()
    for name in sorted({**TABLES, **COMPONENTS}.values()):
        digest.update(name.encode() + b"\0" + (pricing_dir() / name).read_bytes())
    return digest.hexdigest()
