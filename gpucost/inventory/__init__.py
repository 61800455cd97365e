"""What there was: nodes, their GPUs, and the pods that held them, read out of the raw series."""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.catalog import load_catalog
from gpucost.engine.local import run_stages
from gpucost.inventory.settings import load_settings
from gpucost.store import missing

if TYPE_CHECKING:
    from collections.abc import Sequence

    from duckdb import DuckDBPyConnection

    from gpucost.config import Config


def stage(con: DuckDBPyConnection, config: Config, needs: Sequence[tuple[str, str, str, str]] = ()) -> None:
    """Rebuild nodes, allocations and what is known of them, collected and warnings, and the temporary tables that others read.

    `needs` are the metrics and labels that a warning tells of where they are missing: kind, metric, what is lost, what mends it.
    """
    con.execute(
        "DELETE FROM nodes; DELETE FROM allocations; DELETE FROM allocation_traits; DELETE FROM node_leftovers; "
        "DELETE FROM pending_requests; DELETE FROM collected; DELETE FROM coverage_gaps; DELETE FROM warnings"
    )
    load_catalog(con)
    load_settings(con, config)
    missing.look(con, needs)
    run_stages(con, "gpucost.inventory")


def coverage(con: DuckDBPyConnection, config: Config) -> None:
    """Rebuild coverage_gaps and collected alone, as far as metrics tell of them."""
    con.execute("DELETE FROM collected; DELETE FROM coverage_gaps")
    load_catalog(con)
    load_settings(con, config)
    run_stages(con, "gpucost.inventory", until="19_collected")
