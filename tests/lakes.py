"""Comparison of a lake's figures with the store's: every stored table, row by row."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from decimal import Decimal
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any
from unittest.mock import patch

import duckdb

from gpucost import pipeline
from gpucost.collect.bill.load import collect_bills
from gpucost.collect.bill.opening import LocalTree
from gpucost.config.load import load_config
from gpucost.config.model import Config
from gpucost.lake import attribution, export as exporting, reading
from gpucost.lake.files import open_files
from gpucost.store.connection import Store
from gpucost.store.metrics import load_window
from tests.oracle.test_exact import Together, side_by_side
from tests.replay.bill_files import aws_cur
from tests.replay.billing import charges
from tests.replay.cases.words import at
from tests.replay.edits import relabel
from tests.replay.fleet import CASES, read_fleet
from tests.replay.load import load, windows, write_config
from tests.replay.scrape import scrape
from tests.text_tables import columns
from tests.unit.four_days import FIRST, configured, described

_STORED = """
    nodes allocations allocation_traits mig_fragmentation pending_pods collected coverage_gaps node_stops warnings node_prices
    billed_hours billed_nodes cost_runs node_runs activity_hours cost_daily node_daily"""
FIGURES = tuple(_STORED.split())
_PLAIN = """
    scrape_gaps asked_hours dropped_samples slurm_runs slurm_steps slurm_nodes slurm_events slurm_reservations slurm_accounts
    slurm_shares slurm_devices progress_runs list_prices component_prices instance_types spot_prices"""
#: Raw rows without a store's internal ids of series, loads and bills.
RAW = {
    **{name: f"FROM {{0}}.{name}" for name in _PLAIN.split()},
    **columns("""
        states     SELECT s.key, t.* EXCLUDE (series_id) FROM {0}.states AS t JOIN {0}.series AS s USING (series_id)
        blocks     SELECT s.key, t.* EXCLUDE (series_id) FROM {0}.blocks AS t JOIN {0}.series AS s USING (series_id)
        series     SELECT * EXCLUDE (series_id) FROM {0}.series
        loads      SELECT kind, source, from_ms, to_ms, rows, dropped, loaded_at FROM {0}.loads
        bill_rows  SELECT * EXCLUDE (bill_id) FROM {0}.bill_rows
        bills      SELECT * EXCLUDE (bill_id, load_id) FROM {0}.bills
    """),
}
#: Internal ids of a store.
_OWN = {"billed_hours": "EXCLUDE (bill_id)"}


def differences(one: Path, other: Path, queries: dict[str, str] | None = None) -> list[str]:
    """Return a line for each table that differs between two stores, with a row missing from the other."""
    if queries is None:
        queries = {name: f"SELECT * {_OWN.get(name, '')} FROM {{0}}.{name}" for name in FIGURES}  # noqa: S608
    wrong = []
    with duckdb.connect() as con:
        con.execute(f"ATTACH '{one}' AS a (READ_ONLY); ATTACH '{other}' AS b (READ_ONLY)")
        for name, query in queries.items():
            sides = query.format("a"), query.format("b")
            for left, right, what in ((*sides, "is missing"), (*reversed(sides), "is too much")):
                rows = con.execute(f"({left}) EXCEPT ALL ({right})").fetchall()
                if rows:
                    wrong.append(f"{name}: {len(rows)} rows, {what}: {rows[0]}")
    return wrong


def stored_together(group: Together, folder: Path) -> tuple[Config, Store]:
    """Return a store of several cases, with clusters named after them."""
    fleet, series, prices = side_by_side(group, folder)
    config = write_config(fleet, folder, prices)
    return config, load(fleet, series, config)


def export(config: Config, store: Store, url: Path | str, *, everything: bool = False) -> exporting.Exported:
    """Export the store into the lake."""
    return exporting.export(config, store, open_files(str(url), config), everything=everything)


def attribute(config: Config, url: Path | str) -> attribution.Attributed:
    """Attribute the lake in this process."""
    return attribution.attribute(config, str(url))


@contextmanager
def opened(config: Config, url: Path | str, **more: Any) -> Iterator[Store]:
    """Yield the lake's figures as a store."""
    with TemporaryDirectory(prefix="opened-") as folder:
        yield reading.open_store(config, str(url), Path(folder), more.pop("period", None), **more)[0]


def unlike_the_store(config: Config, store: Store, pairs: int = 1_200_000) -> list[str]:
    """Return differences between the store's figures and an exported lake's; `pairs` of (GPU, hour) per task."""
    pipeline.attribute(config, store)
    with TemporaryDirectory(prefix="lake-") as url, patch.object(attribution, "_PAIRS_AT_ONCE", pairs):
        export(config, store, url)
        attribute(config, url)
        with opened(config, url) as other:
            return differences(store.path, other.path)


def stored(
    folder: Path, case: str = "whole-gpus", cluster: str = "", source: str = "replay"
) -> tuple[Config, Store]:
    """Return a store of a case in `folder`, with its cluster renamed."""
    folder.mkdir(exist_ok=True)
    fleet = read_fleet(CASES / case)
    config = write_config(fleet, folder, CASES / case / "prices.csv")
    series = scrape(fleet, lean=True)
    if cluster:
        series = relabel(series, ".*", {"cluster": None})
        fleet["nodes"] = [{**node, "cluster": cluster} for node in fleet["nodes"]]
    store = Store(config.store)
    with store.write() as con:
        for window in windows(fleet, series, config, 6, source):
            load_window(con, window)
    return config, store


@dataclass(frozen=True)
class GrownLake:
    """A store and its lake in one folder, with the result of each step."""

    folder: Path
    exports: tuple[exporting.Exported, ...] = ()
    runs: tuple[attribution.Attributed, ...] = ()
    notes: tuple[str, ...] = ()

    @property
    def url(self) -> Path:
        return self.folder / "lake"

    @property
    def config(self) -> Config:
        return load_config(self.folder / "gpucost.toml", environ={}, cwd=self.folder)

    @property
    def store(self) -> Store:
        return Store(self.folder / "gpucost.duckdb")

    def copy(self, folder: Path) -> GrownLake:
        """Return a copy that may be changed, with the same writer, since the configuration names it."""
        return GrownLake(shutil.copytree(self.folder, folder))


def _rate(node: dict[str, Any], hour: int) -> tuple[str, Decimal] | None:
    """Return the billed price of the first two days; later days have the price of the book."""
    if hour >= at(48):
        return None
    return (
        ("spot", Decimal("15.25")) if node["capacity_type"] == "spot" else ("savings_plan", Decimal("31.5"))
    )


def grow(folder: Path) -> GrownLake:
    """Export and attribute all days except the last, in loads of 1.5 days and with a bill for two days, then the last."""
    path = configured(folder, FIRST).path
    assert path is not None
    path.write_text(f'{path.read_text()}[lake]\nwriter = "one"\n')
    lake, exports, runs, notes = GrownLake(folder), [], [], []
    loads = list(windows(described(), scrape(described(), lean=True), Config(store=folder), hours=36))
    for part in (loads[:-1], loads[-1:]):
        with lake.store.write() as con:
            for window in part:
                load_window(con, window)
        if not runs:
            (folder / "cur.csv").write_text(aws_cur(charges(described(), _rate)))
            assert not collect_bills(lake.store, [LocalTree(folder / "cur.csv")], "aws").errors
        exports.append(export(lake.config, lake.store, lake.url))
        if runs:
            with TemporaryDirectory() as aside:
                notes = reading.open_store(lake.config, str(lake.url), Path(aside), None)[1]
        with patch.object(attribution, "_PAIRS_AT_ONCE", 800):
            runs.append(attribute(lake.config, lake.url))
    pipeline.attribute(lake.config, lake.store)
    return GrownLake(folder, tuple(exports), tuple(runs), tuple(notes))
