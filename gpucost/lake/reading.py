"""A lake's figures as a store: what reports read, of the days that are asked for."""

from __future__ import annotations

import json
from collections import defaultdict
from datetime import date, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

from gpucost import disk, pipeline
from gpucost.errors import StoreError, UsageError
from gpucost.lake import manifest, steps, transfer
from gpucost.lake.attribution import current_markers, raw_digest, read_current, utc_days
from gpucost.lake.files import open_files
from gpucost.lake.manifest import LakeFile
from gpucost.lake.tables import RAW
from gpucost.periods import MS_PER_HOUR, local_midnight, to_ms
from gpucost.store.connection import Store
from gpucost.store.schema import latest_version

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.periods import Period

# Besides what a step made last, none of it is read.
_LAST_MADE = {
    **dict.fromkeys(("allocations", "allocation_traits", "mig_fragmentation", "pending_pods"), "inventory"),
    **dict.fromkeys(set(steps.OF_PRICE) - {"warnings", "unseen_time", "basis_spans"}, "price"),
    "warnings": "warnings",
    **dict.fromkeys(steps.ATTRIBUTED, "attribute"),
}  # fmt: skip
# Time whose days are not read counts as not collected: a question about it must not find that nothing was spent.
_UNREAD = """
INSERT INTO coverage_gaps BY NAME
SELECT cluster, greatest(from_ms, part_from_ms) AS from_ms, least(to_ms, part_to_ms) AS to_ms, 'not_collected' AS kind,
    ['nodes', 'pods'] AS families, 'not read from the lake' AS reason
FROM collected CROSS JOIN (VALUES (0, $from_ms), ($to_ms, 9223372036854775807)) AS parts (part_from_ms, part_to_ms)
WHERE from_ms < part_to_ms AND part_from_ms < to_ms;
"""
_READ = """
CREATE OR REPLACE TEMP TABLE read_time AS
SELECT cluster, greatest(from_ms, $from_ms) AS from_ms, least(to_ms, $to_ms) AS to_ms
FROM collected WHERE from_ms < $to_ms AND $from_ms < to_ms"""
# Of these, rows of other days say nothing of the days that are read; of all others each is read, whenever it began.
_BY_DAY = ("states", "blocks", "scrape_gaps", "asked_hours", "dropped_samples", "progress_values")
# So much before a period is read with it: what it is compared with, and a month for what changes slowly.
_BEFORE_DAYS = 31


def open_store(
    config: Config,
    url: str,
    folder: Path,
    period: Period | None,
    *,
    samples: bool = False,
    tell: Callable[[str], None] = lambda _: None,
) -> tuple[Store, list[str]]:
    """A store below `folder` that holds the lake's figures, and what their reader should know.

    They are of `period` and as long before, else of the newest three months. With `samples`, or where the lake lies on this
    machine, also what GPUs did, for questions that look at it; else there is no table of it. Raises NoDataError where nothing is
    attributed, StoreError where it was attributed with another configuration, and UsageError for a period that begins or ends
    within an hour.
    """
    if period and (period.start_ms % MS_PER_HOUR or period.end_ms % MS_PER_HOUR):
        raise UsageError("a lake is attributed by whole hours", "let --from and --to name full hours")
    files = open_files(url, config)
    lake, current = manifest.read(files), read_current(files)
    inputs = pipeline.inputs_of(config)
    if current["inputs"] != inputs.all:
        raise StoreError(
            f"the lake {files.shown()} was attributed with another configuration, price book or catalog",
            f"gpucost lake attribute {files.shown()}, or name that configuration with --config",
        )
    if current.get("schema") != latest_version():
        raise StoreError(
            f"the lake {files.shown()} was attributed by another version of gpucost", f"gpucost lake attribute {files.shown()}"
        )
    notes = []
    if current["raw"] != raw_digest(lake):
        notes.append(f"the lake holds data that is newer than its figures: gpucost lake attribute {files.shown()}")
    known = sorted({day for of_days in current["days"].values() for day in of_days})
    first, last = _span(config, period, known)
    found: dict[str, list[LakeFile]] = defaultdict(list)
    places = list(current_markers(current, lambda day: first <= day <= last))
    for place, content in zip(places, files.each(files.read, places), strict=True):
        if content is None:
            raise StoreError(f"{files.shown(place)} is missing", f"gpucost lake attribute {files.shown()}")
        for name, file in json.loads(content)["tables"].items():
            found[f"{place.split('/')[2]}/{name}"].append(LakeFile(**file))
    tell(f"reading {files.shown()}")
    store = Store(folder / "lake.duckdb", lake_folders=(folder, *files.folders()))
    with store.write() as con, disk.workplace(folder) as near:
        con.execute("SET preserve_insertion_order = false")
        for name, step in _LAST_MADE.items():
            if transfer.view_rows(con, files, near, found[f"{step}/{name}"]):
                con.execute(f"INSERT INTO {name} BY NAME FROM lake_rows")
        start, end = _midnight(config, first), _midnight(config, last, 1)
        if known and (first > known[0] or last < known[-1]):
            con.execute(_UNREAD, {"from_ms": start, "to_ms": end})
            con.execute(_READ, {"from_ms": start, "to_ms": end})
            con.execute("DELETE FROM collected; INSERT INTO collected FROM read_time")
        _enter_raw(con, lake, folder, utc_days(start, end), samples=samples or files.is_local)
        con.execute(
            "INSERT INTO attribution_state SELECT $all, $own, coalesce(max(load_id) FILTER (kind <> 'progress'), 0) FROM loads",
            {"all": inputs.all, "own": inputs.own},
        )
    return store, notes


def _span(config: Config, period: Period | None, known: list[str]) -> tuple[str, str]:
    """The first and the last local day to read."""
    if not known:
        return "", ""
    if period is None:
        newest = date.fromisoformat(known[-1]).replace(day=1)
        return str(((newest - timedelta(days=1)).replace(day=1) - timedelta(days=1)).replace(day=1)), known[-1]
    begin = period.start.astimezone(config.tz).date()
    length = max(timedelta(days=_BEFORE_DAYS), period.end - period.start)
    last = (period.end - timedelta(milliseconds=1)).astimezone(config.tz).date()
    # of a period before or after all that is known, one day
    first = min(max(str(begin - timedelta(days=length.days + 1)), known[0]), known[-1])
    return first, max(min(str(last), known[-1]), first)


def _midnight(config: Config, day: str, later: int = 0) -> int:
    return to_ms(local_midnight(date.fromisoformat(day) + timedelta(days=later), config.tz)) if day else 0


def _enter_raw(con: DuckDBPyConnection, lake: manifest.Lake, folder: Path, days: list[str], *, samples: bool) -> None:
    """Enter the raw rows of these days that reports look at, of all clusters; of loads, bills and prices all."""
    for cluster in (*lake.clusters, None):
        every = lake.tables(cluster)
        months = {day[:7] for day in days}
        tables = every
        if cluster is not None:
            near = lake.tables(cluster, days)
            of_months = lake.tables(cluster, [day for day in lake.days(cluster) if day[:7] in months])
            tables = {**every, **{name: near.get(name, []) for name in _BY_DAY}, "series": of_months.get("series", [])}
        for table in RAW:
            if table.name != "blocks" and transfer.view_rows(con, lake.files, folder, tables.get(table.name, ())):
                transfer.enter(con, table, cluster, lake.files.shown())
    if samples:
        blocks = {name: lake.tables(name, days).get("blocks", []) for name in lake.clusters}
        transfer.view_blocks(con, {name: transfer.parquet(lake.files, folder, found) for name, found in blocks.items()})
    else:
        # none is not the same as none that was read
        con.execute("DROP TABLE blocks")
