"""The catalog that gpucost ships: list prices, instance types, GPU models and their spellings, MIG profiles, resources.

Inventory asks it what an instance type holds, price asks it what one costs.
"""

from __future__ import annotations

import csv
from functools import cache
from hashlib import sha256
from typing import TYPE_CHECKING

from gpucost.engine import run_stage
from gpucost.resources import pricing_dir

if TYPE_CHECKING:
    from collections.abc import Iterable

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


# Kinds of rows by which nobody holds a device: no accelerator, drivers of claims, and memory and cores, which are parts of one.
_NONE = "none"
_CLAIM = "claim"
_PARTS = ("memory", "percentage", "cores", "total_memory", "total_cores", "unsplit_part")


def accelerators() -> str:
    """The resources that are accelerators or parts of them, as kube-state-metrics spells them."""
    return _joined(row["resource"] for row in _rows("resources.csv") if row["kind"] not in (_NONE, _CLAIM))


def devices() -> str:
    """The resources that count devices, slices, slots and the like, but not their memory and cores."""
    return _joined(row["resource"] for row in _rows("resources.csv") if row["kind"] not in (_NONE, _CLAIM, *_PARTS))


def other_resources() -> str:
    """The resources that are known to be no accelerators."""
    return _joined(row["resource"] for row in _rows("resources.csv") if row["kind"] == _NONE)


def claim_metrics(kind: str) -> list[str]:
    """The metrics that tell which pods ('pod') or devices ('device') belong to a resource claim."""
    return [row["metric"] for row in _rows("claim_series.csv") if row["kind"] == kind]


def _joined(patterns: Iterable[str]) -> str:
    return "|".join(dict.fromkeys(patterns))


@cache
def _rows(name: str) -> list[dict[str, str]]:
    with (pricing_dir() / name).open(encoding="utf-8", newline="") as file:
        return list(csv.DictReader(file, strict=True))
