"""A lake's figures for a report's days, as a store (`--lake`)."""

from collections import defaultdict
from collections.abc import Callable
from datetime import date, timedelta
from pathlib import Path

from gpucost import disk, pipeline
from gpucost.config.model import Config
from gpucost.errors import NoDataError, StoreError, UsageError
from gpucost.lake import manifest, tables
from gpucost.lake.attribution import markers_of, raw_digest, read_current, utc_days
from gpucost.lake.files import open_files
from gpucost.lake.steps import TABLES, written_tables
from gpucost.lake.tables import RAW
from gpucost.periods import MS_PER_HOUR, Period, local_midnight, to_ms
from gpucost.records import DuckDBPyConnection
from gpucost.store.connection import Store

# The step that wrote the final rows of each table.
_WRITERS = {
    **dict.fromkeys(("allocations", "allocation_traits", "mig_fragmentation", "pending_pods"), "inventory"),
    **dict.fromkeys(set(written_tables("price")) - {"warnings", "unseen_time", "basis_spans"}, "price"),
    **dict.fromkeys(written_tables("attribute"), "attribute"),
    "warnings": "warnings",
}
# Days that are not read count as not collected: a report on them must not show zero cost.
_UNREAD = """
INSERT INTO coverage_gaps BY NAME
SELECT cluster, greatest(from_ms, part_from_ms) AS from_ms, least(to_ms, part_to_ms) AS to_ms, 'not_collected' AS kind,
    ['nodes', 'pods'] AS families, 'not read from the lake' AS reason
FROM collected CROSS JOIN (VALUES (0, $from_ms), ($to_ms, 9223372036854775807)) AS parts (part_from_ms, part_to_ms)
WHERE from_ms < part_to_ms AND part_from_ms < to_ms;
"""
_CUT = "UPDATE collected SET from_ms = greatest(from_ms, $from_ms), to_ms = least(to_ms, $to_ms)"
# These tables are read only for the requested days, other tables completely.
_BY_DAY = ("states", "blocks", "scrape_gaps", "asked_hours", "dropped_samples", "progress_values")
# Days before a period to read, for comparisons and slowly changing facts.
_BEFORE_DAYS = 31


def open_store(
    config: Config,
    url: str,
    folder: Path,
    period: Period | None,
    *,
    samples: bool = True,
    show_progress: Callable[[str], None] = lambda _: None,
) -> tuple[Store, list[str]]:
    """A store in `folder` with the lake's figures of `period`, and notes.

    It also has the time before the period: an equal length, but at least 31 days. The default is the newest
    three months. `samples` includes samples of GPUs, which waste, findings and the HTML page need. Raises
    NoDataError without figures, StoreError for figures of another configuration, and UsageError for a period
    that begins or ends within an hour.
    """
    if period and (period.start_ms % MS_PER_HOUR or period.end_ms % MS_PER_HOUR):
        raise UsageError("a lake is attributed by whole hours", "use full hours in --from and --to")
    files = open_files(url, config)
    lake, current, inputs = manifest.read(files), read_current(files), pipeline.inputs_of(config)
    attribute = f"gpucost lake attribute {files.label()}"
    if current is None:
        raise NoDataError(f"the lake {files.label()} has no figures of this gpucost version", attribute)
    if current["inputs"] != inputs.all:
        raise StoreError(
            f"the lake {files.label()} was attributed with another configuration, price book or catalog",
            f"{attribute}, or use that configuration with --config",
        )
    notes = []
    if current["raw"] != raw_digest(lake):
        notes.append(f"the lake has newer data than its figures: {attribute}")
    days = sorted(current["days"])
    first, last = _days_to_read(config, period, days)
    found = defaultdict(list)
    places = list(markers_of(current, lambda day: first <= day <= last))
    for place, content in zip(places, files.each(files.read, places), strict=True):
        if content is None:
            raise StoreError(f"{files.label(place)} is missing", attribute)
        for name, file in TABLES.validate_json(content).items():
            found[f"{place.split('/')[2]}/{name}"].append(file)
    show_progress(f"reading {files.label()}")
    store = Store(folder / "lake.duckdb")
    with store.write(folder, *files.folders()) as con, disk.workplace(folder) as near:
        con.execute("SET preserve_insertion_order = false")
        for name, step in _WRITERS.items():
            if tables.view_rows(con, files, near, found[f"{step}/{name}"]):
                con.execute(f"INSERT INTO {name} BY NAME FROM lake_rows")
        start, end = _midnight(config, first), _midnight(config, last, 1)
        if days and (first > days[0] or last < days[-1]):
            for statement in (_UNREAD, _CUT):
                con.execute(statement, {"from_ms": start, "to_ms": end})
            con.execute("DELETE FROM collected WHERE from_ms >= to_ms")
        for cluster in (*lake.clusters, None):
            _enter_raw(con, lake, cluster, near, utc_days(start, end), samples=samples)
        con.execute(
            "INSERT INTO attribution_state SELECT $all, $own, coalesce(max(load_id) FILTER (kind <> 'progress'), 0) FROM loads",
            {"all": inputs.all, "own": inputs.general},
        )
    return store, notes


def _days_to_read(config: Config, period: Period | None, days: list[str]) -> tuple[str, str]:
    """The first and the last local day to read."""
    if not days:
        return "", ""
    if period is None:
        newest = date.fromisoformat(days[-1]).replace(day=1)
        # 32 days before the start of a month are in the second month before it
        return str((newest - timedelta(days=32)).replace(day=1)), days[-1]
    begin = period.start.astimezone(config.tz).date()
    length = max(timedelta(days=_BEFORE_DAYS), period.end - period.start)
    last = (period.end - timedelta(milliseconds=1)).astimezone(config.tz).date()
    # One day, if the period is before or after all data.
    first = min(max(str(begin - timedelta(days=length.days + 1)), days[0]), days[-1])
    return first, max(min(str(last), days[-1]), first)


def _midnight(config: Config, day: str, later: int = 0) -> int:
    return to_ms(local_midnight(date.fromisoformat(day) + timedelta(days=later), config.tz)) if day else 0


def _enter_raw(
    con: DuckDBPyConnection,
    lake: manifest.Lake,
    cluster: str | None,
    folder: Path,
    days: list[str],
    *,
    samples: bool,
) -> None:
    """Load the raw rows of a cluster: of these days or all, and the series of these days' months."""
    found = lake.tables(cluster)
    if cluster is not None:
        months = {day[:7] for day in days}
        near = lake.tables(cluster, days)
        found |= {name: near[name] for name in _BY_DAY}
        whole_months = [day for day in lake.days(cluster) if day[:7] in months]
        found["series"] = lake.tables(cluster, whole_months)["series"]
    for table in RAW:
        if samples or table.name != "blocks":
            tables.enter(con, table, cluster, lake.files, folder, found[table.name])
