"""The steps of a lake's attribution: their stages, inputs and outputs.

STEPS lists them; docs/lake.md shows the list. A step runs as tasks. Each task fills an empty store with the
step's inputs, runs stages of the store on it, and writes Parquet files. They count once the task's marker is
written; a task that runs twice writes equal rows.
"""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cache
from pathlib import Path
from typing import NamedTuple
from uuid import uuid4

from pydantic import TypeAdapter

from gpucost import attribute, disk, inventory, price
from gpucost.config.model import Config
from gpucost.engine import run_stage
from gpucost.errors import GpucostError
from gpucost.lake import tables
from gpucost.lake.files import LakeFiles, checksum, open_files
from gpucost.lake.manifest import LakeFile, Tables, partition
from gpucost.lake.tables import BY_NAME, STITCHED, parquet, quoted
from gpucost.periods import MS_PER_HOUR
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.store.connection import Store
from gpucost.store.sqlfiles import value

# Increases when a step writes different files for the same inputs.
STEPS_VERSION = 2
# Samples affect the neighboring hours: a task reads this much beyond its days.
NEIGHBOR_MS = 5 * MS_PER_HOUR


@frozen_dataclass
class LakeStep:
    """A step: one task `per` cluster or lake runs `stages`, which read and write these tables of the lake."""

    per: str
    stages: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


def _tables(step: str, names: str) -> tuple[str, ...]:
    return tuple(f"{step}/{name}" for name in names.split())


_PRICES = _tables("price", "nodes collected node_stops node_prices unseen_time basis_spans")
_HOLDINGS = _tables(
    "inventory",
    "allocations absences allocation_devices told_activity allocation_teams allocation_hosts node_hosts node_devices "
    "profile_devices",
)
STEPS = {
    "inventory": LakeStep(
        "cluster",
        "inventory/*.sql, attribute/days/17_absences.sql, attribute/basis/40_request_gaps.sql",
        _tables(
            "raw",
            "series states blocks scrape_gaps loads asked_hours dropped_samples slurm_runs slurm_steps slurm_nodes "
            "slurm_events slurm_reservations slurm_accounts slurm_devices",
        ),
        _tables(
            "inventory",
            "nodes allocations allocation_traits mig_fragmentation pending_pods collected coverage_gaps node_stops warnings "
            "node_devices profile_devices node_hosts unlisted_holdings unlisted_nodes allocation_devices "
            "allocation_hosts unproven_ends allocation_teams told_activity absences request_gaps",
        ),
    ),
    "price": LakeStep(
        "lake",
        "price/bill/*.sql, price/*.sql, attribute/basis/*.sql, attribute/days/15_unseen_time.sql",
        _tables("raw", "loads bills bill_rows list_prices component_prices instance_types spot_prices")
        + _tables(
            "inventory",
            "nodes collected coverage_gaps node_stops warnings node_hosts unlisted_holdings unlisted_nodes request_gaps",
        ),
        _tables(
            "price",
            "nodes collected coverage_gaps node_stops warnings node_prices billed_hours billed_nodes discount_rates "
            "amortized_discounts unseen_time basis_spans",
        ),
    ),
    "days": LakeStep("cluster", "attribute/days/20_day_fingerprints.sql", (*_PRICES, *_HOLDINGS), ()),
    "attribute": LakeStep(
        "cluster, days",
        "attribute/*.sql",
        ("raw/blocks", *_PRICES, *_HOLDINGS),
        _tables("attribute", "cost_runs node_runs activity_hours profile_hours cost_daily node_daily"),
    ),
    "warnings": LakeStep(
        "lake",
        "attribute/days/30_warnings.sql",
        (
            *_tables(
                "price", "nodes node_stops coverage_gaps billed_hours billed_nodes unseen_time warnings"
            ),
            *("inventory/allocations", "inventory/node_devices", "inventory/unproven_ends"),
            *("attribute/node_runs", "attribute/cost_runs"),
        ),
        ("warnings/warnings",),
    ),
}


def read_tables(step: str, source: str) -> list[str]:
    """A step's input tables: raw tables, or tables of an earlier step."""
    return [name.removeprefix(f"{source}/") for name in STEPS[step].reads if name.startswith(f"{source}/")]


def written_tables(step: str) -> list[str]:
    """The tables that a step writes."""
    return [name.removeprefix(f"{step}/") for name in STEPS[step].writes]


class Day(NamedTuple):
    """A local day: its date, bounds in milliseconds, and a digest of its inputs."""

    name: str
    start: int
    end: int
    key: str


@dataclass(slots=True)
class Task:
    """A part of a step's work, as sent to its worker.

    `key` is a digest of all inputs. `raw` are the files to read by cluster ('' for none) and table, `made`
    the files of earlier steps by step and table. `heard` is the first and last moment of the lake's data.
    `prices` are the path and the text of the price book and of exchange rates, `silent` the configured
    clusters and servers without data.
    """

    step: str
    key: str
    clusters: list[str]
    heard: tuple[int, int]
    raw: dict[str, Tables] = field(default_factory=dict)
    made: Tables = field(default_factory=dict)
    days: list[Day] = field(default_factory=list)
    prices: dict[str, tuple[Path, str]] = field(default_factory=dict)
    silent: list[str] = field(default_factory=list)

    @property
    def group(self) -> str:
        """Its clusters, as named in the lake's folders."""
        return "+".join(self.clusters)

    @property
    def name(self) -> str:
        """The task for people: `attribute, cluster=prod, day=2026-10-01 to 2026-10-05`."""
        parts = [self.step]
        if STEPS[self.step].per != "lake":
            parts.append(f"cluster={self.group or 'none'}")
        if self.days:
            first, last = self.days[0].name, self.days[-1].name
            parts.append(f"day={first}" if first == last else f"day={first} to {last}")
        return ", ".join(parts)

    @property
    def markers(self) -> list[str]:
        """The files that list its output, by key; for the step attribute, one per day."""
        keys = [day.key for day in self.days] if self.step == "attribute" else [self.key]
        return [f"{MARKERS}/{self.step}/{key}.json" for key in keys]

    def folders(self, day: Day | None) -> list[str]:
        """The Hive partitions of its output."""
        parts = [] if STEPS[self.step].per == "lake" else [partition("cluster", self.group)]
        return [*parts, partition("day", day.name)] if day else parts


MARKERS = "_gpucost/attributed"
TASK = TypeAdapter(Task)


@dataclass(slots=True)
class Reply:
    """The result of a task: written files by marker and table.

    The step days also returns its days and its number of GPUs.
    """

    written: dict[str, dict[str, LakeFile]] = field(default_factory=dict)
    days: list[tuple[int, int, str]] = field(default_factory=list)
    gpus: float = 0

    @property
    def rows(self) -> int:
        """The number of rows written."""
        return sum(sum(file.rows for file in tables.values()) for tables in self.written.values())


REPLY = TypeAdapter(Reply)


class TaskError(GpucostError):
    """A failed task; the message begins with the task's name."""


def run(url: str, config: Config, threads: int | None, tasks: Sequence[Task], number: int) -> str:
    """Run one of the tasks, here or on another machine; return its Reply as JSON.

    Raises TaskError.
    """
    task, copies = tasks[number], dict[str, str]()
    files = open_files(url, config)
    try:
        with disk.temporary() as near:
            local = {}  # price files: a worker may not have the originals
            for key, (path, content) in task.prices.items():
                local[key] = near / f"{key}{path.suffix}"
                local[key].write_text(content, "utf-8")
                copies[str(local[key])] = str(path)
            config = config.model_copy(update={"prices": config.prices.model_copy(update=local)})
            store = Store(near / "store.duckdb", mode=config.file_mode)
            store.path.write_bytes(_empty_store())
            with store.write(near, *files.folders()) as con:
                con.execute("SET preserve_insertion_order = false")
                con.execute(f"SET memory_limit = '{config.engine.memory}'")
                if threads:
                    con.execute("SET threads = $1", [threads])
                work = _Work(con, files, config, task, near, copies)
                _WORK[task.step](work)
                return REPLY.dump_json(work.reply).decode()
    except Exception as error:
        words = next(iter(str(error).strip().splitlines()), type(error).__name__)
        fix = "run it again: finished tasks stay; [engine] memory gives a task more memory"
        if isinstance(error, GpucostError):
            words, fix = error.message, error.fix or ""
        for copy, original in copies.items():
            words, fix = words.replace(copy, original), fix.replace(copy, original)
        raise TaskError(f"{task.name}: {words}", fix or None) from error


@cache
def _empty_store() -> bytes:
    """An empty store; a process creates its schema once."""
    with disk.temporary() as folder:
        path = folder / "store.duckdb"
        with Store(path).write():
            pass
        return path.read_bytes()


@dataclass(slots=True)
class _Work:
    """A running task: its open store, and the folder for files from a bucket."""

    con: DuckDBPyConnection
    files: LakeFiles
    config: Config
    task: Task
    folder: Path
    copies: dict[str, str]
    reply: Reply = field(default_factory=Reply)

    def enter_raw(self, names: Iterable[str], cluster: str | None) -> None:
        """Fill raw tables with the rows of one cluster, or of none."""
        raw = self.task.raw[cluster or ""]
        for name in names:
            tables.enter(self.con, BY_NAME[name], cluster, self.files, self.folder, raw.get(name, ()))

    def prepare(self) -> None:
        """Create the tables that stages share, and the settings."""
        inventory.declare(self.con)
        inventory.load_settings(self.con, self.config, self.task.heard)
        # here, a series is numbered by its key
        for name in ("node_devices", "profile_devices"):
            self.con.execute(f"ALTER TABLE {name} ALTER series_id TYPE UBIGINT")

    def fill(self, step: str, *names: str, where: str = "true") -> None:
        """Fill tables with the rows of an earlier step; first create tables that stages usually create."""
        for name in names:
            if name in _MADE:
                self.con.execute(_MADE[name])
            found = self.task.made.get(f"{step}/{name}", ())
            if tables.view_rows(self.con, self.files, self.folder, found):
                self.con.execute(f"INSERT INTO {name} BY NAME SELECT * FROM lake_rows WHERE {where}")  # noqa: S608 - our own names

    def write(self, statements: Mapping[str, str], day: Day | None = None) -> None:
        """Write a Parquet file for each statement with rows, then the marker that lists them."""
        step, key = self.task.step, day.key if day else self.task.key
        written = {}
        for name, statement in statements.items():
            part = self.folder / f"{name}-{uuid4().hex}.parquet"
            rows = value(self.con, f"COPY ({statement}) TO '{part}' (FORMAT parquet, COMPRESSION zstd)")
            table = name if step == "attribute" else f"{step}/{name}"
            # Two runs of one task write different files.
            place = "/".join(
                ["attributed", table, *self.task.folders(day), f"{key[:16]}-{uuid4().hex[:12]}.parquet"]
            )
            if rows:
                written[name] = LakeFile(place, rows, part.stat().st_size, checksum(part), "")
                self.files.write(place, part)
        marker = f"{MARKERS}/{step}/{key}.json"
        if content := self.files.read(marker):
            # Another run of this task was faster; its files may be in use.
            self.files.delete(file.name for file in written.values())
            written = TABLES.validate_json(content)
        else:
            self.files.write(marker, TABLES.dump_json(written))
        self.reply.written[marker] = written


# The content of a marker.
TABLES = TypeAdapter(dict[str, LakeFile])


# Tables of series, which inventory reads without a copy.
_IN_PLACE = ("series", "states", "blocks")


def _inventory(work: _Work) -> None:
    from gpucost.collect.prometheus.queries import stored_needs

    con, config, clusters, silent = work.con, work.config, work.task.clusters, work.task.silent
    for cluster in clusters:
        work.enter_raw((name for name in read_tables("inventory", "raw") if name not in _IN_PLACE), cluster)
    if "" in work.task.raw:
        work.enter_raw(("bills", "bill_rows"), None)
    if clusters:
        _enter_series(work)
    # A task warns about its own clusters; the task without clusters warns about configured clusters without
    # data.
    declared = [hours for hours in config.clusters if hours.name in (clusters or silent)]
    servers = [server for server in config.prometheus if not clusters and server.source in silent]
    servers = [server.model_copy(update={"cluster": server.cluster or server.source}) for server in servers]
    task_config = config.model_copy(update={"clusters": declared, "prometheus": servers})
    inventory.stage(con, task_config, stored_needs(config.activity), work.task.heard)
    run_stage(con, attribute.DAYS, "17_absences")
    if config.prices.cost_basis == "node":
        con.execute(_MADE["request_gaps"])
    else:
        run_stage(con, attribute.BASIS, "40_request_gaps")
    order = {"allocations": "held_from_ms, allocation_id", "node_devices": "node_id, series_id"}
    work.write(_ordered(written_tables("inventory"), order))


def _ordered(names: Iterable[str], order: Mapping[str, str], where: str = "true") -> dict[str, str]:
    """A statement per table that selects its rows, ordered if `order` has the table."""
    return {
        name: f"FROM {name} WHERE {where}" + (f" ORDER BY {order[name]}" if name in order else "")
        for name in names
    }


# Tables that stages create for later stages.
_MADE = {
    "request_gaps": "CREATE OR REPLACE TEMP TABLE request_gaps (cluster VARCHAR, from_ms BIGINT, to_ms BIGINT)",
    "unseen_time": """CREATE OR REPLACE TEMP TABLE unseen_time (
        node_id UBIGINT, from_ms BIGINT, to_ms BIGINT, price_per_hour DECIMAL(38, 9), price_as_of DATE, up_ratio DOUBLE)""",
    "basis_spans": """CREATE OR REPLACE TEMP TABLE basis_spans (
        node_id UBIGINT, from_ms BIGINT, to_ms BIGINT, gpu_fraction DOUBLE, cpu_fraction DOUBLE)""",
    "absences": """CREATE OR REPLACE TEMP TABLE absences (
        node_id UBIGINT, cause VARCHAR, gpus DOUBLE, from_ms BIGINT, to_ms BIGINT)""",
}
# A lake has a series once per month.
_SERIES = "CREATE TABLE first_series AS FROM ({}) QUALIFY row_number() OVER (PARTITION BY series_id) = 1"


def _rows_of(work: _Work, table: str, columns: str) -> str:
    """A statement that reads a raw table of series in place, for all clusters; '' without rows.

    A series is numbered by its key, which is equal in every task; with several clusters, by a hash of cluster
    and key.
    """
    parts = []
    for cluster in work.task.clusters:
        if rows := parquet(work.files, work.folder, work.task.raw[cluster].get(table, ())):
            name = quoted(cluster)
            number = f"hash({name}, series_key)" if len(work.task.clusters) > 1 else "series_key"
            parts.append(f"SELECT {number} AS series_id, {columns.format(cluster=name)} FROM ({rows})")  # noqa: S608 - quoted
    return " UNION ALL BY NAME ".join(parts)


def _enter_series(work: _Work) -> None:
    """Read samples in place: inventory reads few of their columns, and each only once or twice."""
    con = work.con
    if rows := _rows_of(work, "series", "series_key AS key, source, {cluster} AS cluster, metric, labels"):
        con.execute(_SERIES.format(rows))
        con.execute("DROP TABLE series; CREATE VIEW series AS FROM first_series")
    if rows := _rows_of(work, "states", "value, first_ms, last_ms"):
        con.execute(f"CREATE VIEW cut_states AS {rows}")
        con.execute("DROP TABLE states")
        con.execute(f"CREATE TABLE states AS WITH {STITCHED}")
    if rows := _rows_of(work, "blocks", "* EXCLUDE (series_key)"):
        con.execute(f"DROP TABLE blocks; CREATE VIEW blocks AS {rows}")


_ORIGINAL_PATH = (
    "UPDATE warnings SET message = replace(message, $copy, $path), fix = replace(fix, $copy, $path)"
)


def _price(work: _Work) -> None:
    con, config = work.con, work.config
    work.enter_raw(read_tables("price", "raw"), None)
    work.prepare()
    work.fill("inventory", *read_tables("price", "inventory"))
    price.stage(con, config)
    price.warn_of_unlisted(con, config)
    for copy, path in work.copies.items():
        con.execute(_ORIGINAL_PATH, {"copy": copy, "path": path})
    attribute.split_prices(con, done_stages=("40_request_gaps",))
    run_stage(con, attribute.DAYS, "15_unseen_time")
    by_node = dict.fromkeys(("node_prices", "unseen_time", "basis_spans"), "node_id, from_ms")
    work.write(_ordered(written_tables("price"), {**by_node, "billed_hours": "instance_key, from_ms"}))


def _prepare_days(work: _Work, span: tuple[int, int] | None = None) -> None:
    """Fill the inputs of a cluster's days, limited to a span and its neighboring hours if given."""
    held = lasts = "true"
    if span:
        start, end = span[0] - NEIGHBOR_MS, span[1] + NEIGHBOR_MS
        held = f"held_from_ms < {end} AND held_to_ms > {start}"
        lasts = f"from_ms < {end} AND to_ms > {start}"
    work.prepare()
    of_clusters = f"cluster IN ({', '.join(map(quoted, work.task.clusters))})"
    of_nodes = "node_id IN (SELECT node_id FROM nodes)"
    work.fill("price", "nodes", "collected", where=of_clusters)
    work.fill("price", "node_stops", where=of_nodes)
    work.fill("price", "node_prices", "unseen_time", "basis_spans", where=f"{of_nodes} AND {lasts}")
    work.fill("inventory", "allocations", where=f"{of_nodes} AND {held}")
    work.fill("inventory", "absences", where=f"{of_nodes} AND {lasts}")
    work.fill("inventory", "node_hosts", where=of_nodes)
    of_allocations = "allocation_id IN (SELECT allocation_id FROM allocations)"
    work.fill(
        "inventory",
        "allocation_devices",
        "told_activity",
        "allocation_teams",
        "allocation_hosts",
        where=of_allocations,
    )


def _days(work: _Work) -> None:
    _prepare_days(work)
    con = work.con
    work.fill("inventory", "node_devices", "profile_devices", where="scale IS DISTINCT FROM usual_scale")
    attribute.load_local_days(con, work.config.tz, *con.execute(attribute.COVERED).fetchall()[0])
    run_stage(con, attribute.DAYS, "20_day_fingerprints")
    work.reply.days = con.execute(
        "SELECT from_ms, to_ms, fingerprint::VARCHAR FROM day_fingerprints ORDER BY from_ms"
    ).fetchall()
    work.reply.gpus = value(con, "SELECT coalesce(sum(gpu_count), 0) FROM nodes")


# Columns of blocks that files of earlier versions lack.
_LATER = """
UNION ALL BY NAME
SELECT NULL::INTEGER AS idle_ms, NULL::DOUBLE AS value_ms, NULL::INTEGER AS longest_ms WHERE false"""
# The sums of all hours. Lists of samples are read only for hours that need them, or to count idle samples
# again.
_SUMS = """
CREATE TABLE blocks AS
SELECT * REPLACE (CASE WHEN $with_lists THEN vals END AS vals, CASE WHEN $with_lists THEN offsets_ms END AS offsets_ms)
FROM lake_blocks
SEMI JOIN (SELECT series_id FROM node_devices UNION ALL SELECT series_id FROM profile_devices) USING (series_id)
WHERE hour >= $from_hour AND hour <= $to_hour
ORDER BY series_id, hour"""
_LISTS = """
UPDATE blocks SET vals = r.vals, offsets_ms = r.offsets_ms
FROM (
    SELECT series_id, hour, vals, offsets_ms FROM lake_blocks
    WHERE hour >= $from_hour AND hour <= $to_hour
        AND ((series_id, hour) IN (SELECT (series_id, hour) FROM device_readings WHERE is_uneven)
            OR series_id IN (SELECT series_id FROM profile_devices))
) AS r
WHERE blocks.series_id = r.series_id AND blocks.hour = r.hour"""
_OTHER_THRESHOLD = f"""
SELECT count(*) > 0 FROM (
    SELECT DISTINCT series_id, idle_threshold FROM lake_blocks WHERE hour >= $from_hour AND hour <= $to_hour
) AS b
JOIN ({attribute.IDLE_BELOW}) AS d USING (series_id)
WHERE b.idle_threshold <> d.idle_below"""  # noqa: S608 - a text of our own


def _attribute(work: _Work) -> None:
    con, tz, days = work.con, work.config.tz, work.task.days
    span = days[0].start, days[-1].end
    start, end = span[0] - NEIGHBOR_MS, span[1] + NEIGHBOR_MS
    _prepare_days(work, span)
    work.fill("inventory", "node_devices", "profile_devices", where=f"first_ms < {end} AND end_ms > {start}")
    hours = {"from_hour": start // MS_PER_HOUR, "to_hour": end // MS_PER_HOUR}
    with_lists = True
    if rows := _rows_of(work, "blocks", "* EXCLUDE (series_key)"):
        con.execute(f"CREATE TEMP VIEW lake_blocks AS {rows}{_LATER}")
        with_lists = value(con, _OTHER_THRESHOLD, hours)
        # Stages find neighboring hours by the order of rows.
        con.execute("SET preserve_insertion_order = true; DROP TABLE blocks")
        con.execute(_SUMS, {**hours, "with_lists": with_lists})
        con.execute("SET preserve_insertion_order = false")
        if with_lists:
            attribute.recount_idle(con, tz)
    attribute.load_local_days(con, tz, *span)

    def read_lists() -> None:
        if not with_lists:
            con.execute(_LISTS, hours)
        attribute.refuse_lost_readings(con, tz)

    attribute.attribute_span(con, span, read_lists)
    order = {
        **dict.fromkeys(("cost_runs", "cost_daily"), "from_ms, node_id, allocation_id, kind, team"),
        "node_runs": "from_ms, node_id", "activity_hours": "from_ms, allocation_id",
        "profile_hours": "from_ms, allocation_id, measure",
        "node_daily": "from_ms, node_id, price_source",
    }  # fmt: skip
    for day in days:
        work.write(
            _ordered(written_tables("attribute"), order, f"from_ms >= {day.start} AND from_ms < {day.end}"),
            day,
        )


def _warnings(work: _Work) -> None:
    work.prepare()
    work.fill("price", *read_tables("warnings", "price"))
    work.fill("inventory", "unproven_ends")
    of_slurm = "FROM nodes WHERE machine_id IS NULL AND labels['label_node'] = node"
    work.fill("inventory", "allocations", where=f"pod IN (SELECT node {of_slurm})")
    alike = f"node_id IN (SELECT node_id FROM nodes WHERE node IN (SELECT node {of_slurm}))"  # noqa: S608 - names of our own
    work.fill("inventory", "node_devices", where=alike)
    work.fill("attribute", "node_runs", where=f"node_id IN (SELECT node_id {of_slurm})")
    work.fill("attribute", "cost_runs", where="allocation_id IN (SELECT allocation_id FROM unproven_ends)")
    run_stage(work.con, attribute.DAYS, "30_warnings")
    work.write({"warnings": "FROM warnings"})


_WORK: dict[str, Callable[[_Work], None]] = {
    "inventory": _inventory,
    "price": _price,
    "days": _days,
    "attribute": _attribute,
    "warnings": _warnings,
}
