"""What a lake's attribution is made of: which stages run over which part of it, and what each reads and writes.

STEPS is the whole of it; docs/lake.md shows it. A step runs as tasks, each in a store of its own that holds what the step reads
and nothing else; the stages are those of a store. What a task writes is there once its marker is, and a task that is run twice
writes the same.
"""

from __future__ import annotations

import json
from dataclasses import dataclass, field, replace
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any
from uuid import uuid4

from gpucost import attribute, disk, inventory, price
from gpucost.config.model import Config
from gpucost.engine import run_stage
from gpucost.errors import GpucostError
from gpucost.lake import transfer
from gpucost.lake.files import LakeFiles, checksum, open_files
from gpucost.lake.manifest import LakeFile, partition
from gpucost.lake.tables import BY_NAME, STITCHED
from gpucost.periods import MS_PER_HOUR
from gpucost.store.connection import Store

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from duckdb import DuckDBPyConnection

# Samples speak into the hours beside them: so much more than a task's days is read.
# Rises when a step makes other files of the same inputs than before.
STEPS_VERSION = 1
NEIGHBOR_MS = 5 * MS_PER_HOUR
ATTRIBUTED = ("cost_runs", "node_runs", "activity_hours", "cost_daily", "node_daily")
_OF_INVENTORY = (
    "nodes", "allocations", "allocation_traits", "mig_fragmentation", "pending_pods", "collected", "coverage_gaps", "node_stops",
    "warnings", "node_devices", "node_hosts", "unlisted_holdings", "unlisted_nodes", "allocation_devices", "allocation_hosts",
    "unproven_ends", "allocation_teams", "told_activity", "absences", "request_gaps",
)  # fmt: skip
OF_PRICE = (
    "nodes", "collected", "coverage_gaps", "node_stops", "warnings", "node_prices", "billed_hours", "billed_nodes",
    "discount_rates", "amortized_discounts", "unseen_time", "basis_spans",
)  # fmt: skip
_RAW_OF_CLUSTERS = (
    "series", "states", "blocks", "scrape_gaps", "loads", "asked_hours", "dropped_samples", "slurm_runs", "slurm_steps",
    "slurm_nodes", "slurm_events", "slurm_reservations", "slurm_accounts", "slurm_devices",
)  # fmt: skip
_RAW_OF_NONE = ("loads", "bills", "bill_rows", "list_prices", "component_prices", "instance_types", "spot_prices")


@dataclass(frozen=True, slots=True)
class Step:
    """A step: its tasks are one `per` what, of the stages in these packages, which read and write these tables of the lake."""

    per: str
    stages: str
    reads: tuple[str, ...]
    writes: tuple[str, ...]


STEPS = {
    "inventory": Step(
        "cluster",
        "inventory/*.sql, attribute/days/17_absences.sql, attribute/basis/40_request_gaps.sql",
        tuple(f"raw/{name}" for name in _RAW_OF_CLUSTERS),
        tuple(f"inventory/{name}" for name in _OF_INVENTORY),
    ),
    "price": Step(
        "lake",
        "price/bill/*.sql, price/*.sql, attribute/basis/*.sql, attribute/days/15_unseen_time.sql",
        (
            *(f"raw/{name}" for name in _RAW_OF_NONE),
            *(f"inventory/{name}" for name in (
                "nodes", "collected", "coverage_gaps", "node_stops", "warnings", "node_hosts", "unlisted_holdings",
                "unlisted_nodes", "request_gaps")),
        ),
        tuple(f"price/{name}" for name in OF_PRICE),
    ),
    "days": Step(
        "cluster",
        "attribute/days/20_day_fingerprints.sql",
        (
            *(f"price/{name}" for name in ("nodes", "collected", "node_stops", "node_prices", "unseen_time", "basis_spans")),
            *(f"inventory/{name}" for name in (
                "allocations", "absences", "allocation_devices", "told_activity", "allocation_teams", "allocation_hosts",
                "node_hosts")),
        ),
        (),
    ),
    "attribute": Step(
        "cluster, days (and nodes, where a day has many)",
        "attribute/*.sql",
        (
            "raw/blocks",
            *(f"price/{name}" for name in ("nodes", "collected", "node_stops", "node_prices", "unseen_time", "basis_spans")),
            *(f"inventory/{name}" for name in (
                "allocations", "absences", "allocation_devices", "told_activity", "allocation_teams", "allocation_hosts",
                "node_hosts", "node_devices")),
        ),
        tuple(f"days/{name}" for name in ATTRIBUTED),
    ),
    "warnings": Step(
        "lake",
        "attribute/days/30_warnings.sql",
        (
            *(f"price/{name}" for name in (
                "nodes", "node_stops", "coverage_gaps", "billed_hours", "billed_nodes", "unseen_time", "warnings")),
            "inventory/unproven_ends",
            "days/node_runs",
            "days/cost_runs",
        ),
        ("warnings/warnings",),
    ),
}  # fmt: skip


@dataclass(slots=True)
class Task:
    """A part of a step's work, as it is sent to where it runs: of these clusters, days and share of the nodes.

    `inputs` are the files to read, by table ('raw/blocks'); those of a cluster's own tables by cluster. `key` names what it
    writes: a digest of all that it is made from.
    """

    step: str
    key: str
    clusters: list[str]
    inputs: dict[str, list[tuple[str | None, LakeFile]]]
    days: list[tuple[int, int]] = field(default_factory=list)
    bucket: tuple[int, int] = (0, 1)
    extra: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """What it is about, for people."""
        parts = [self.step]
        if STEPS[self.step].per != "lake":
            parts.append(f"cluster={'+'.join(self.clusters) or 'none'}")
        if self.days and self.step == "attribute":
            first, last = (self.extra["names"][at] for at in (0, -1))
            parts.append(f"day={first}" if first == last else f"day={first} to {last}")
        if self.bucket[1] > 1:
            parts.append(f"nodes {self.bucket[0] + 1} of {self.bucket[1]}")
        return ", ".join(parts)

    def to_json(self) -> str:
        """The task as text."""
        return json.dumps({name: getattr(self, name) for name in self.__slots__})

    @classmethod
    def from_json(cls, text: str) -> Task:
        """The task that a text says."""
        told = json.loads(text)
        told["inputs"] = {
            table: [(cluster, LakeFile(*file)) for cluster, file in files] for table, files in told["inputs"].items()
        }
        told["days"] = [(start, end) for start, end in told["days"]]
        told["bucket"] = tuple(told["bucket"])
        return cls(**told)


def marker(step: str, key: str, cluster: str | None = None, day: str | None = None, bucket: tuple[int, int] = (0, 1)) -> str:
    """The file that says that a task's work is there, and names its files."""
    parts = [step] if STEPS[step].per == "lake" else [step, partition("cluster", cluster)]
    if day is not None:
        parts.append(partition("day", day))
    share = "" if bucket[1] == 1 else f"-{bucket[0]}-of-{bucket[1]}"
    return f"_gpucost/attributed/{'/'.join(parts)}/{key}{share}.json"


class TaskError(GpucostError):
    """A task that failed: which one, and why."""


def run(url: str, config_json: str, task_json: str) -> dict[str, Any]:
    """Run one task; it may be in another process, or on another machine. What it says is small: figures stay in the lake.

    Raises TaskError, which names the task.
    """
    task, folder = Task.from_json(task_json), Path()
    try:
        with disk.temporary() as folder:
            config = _local_config(config_json, task, folder)
            files = open_files(url, config)
            store = Store(folder / "store.duckdb", mode=config.file_mode)
            store.path.write_bytes(_empty_store())
            with store.write(folder, *files.folders()) as con:
                con.execute("SET preserve_insertion_order = false")
                con.execute(f"SET memory_limit = '{config.engine.memory}'")
                if threads := task.extra.get("threads"):
                    con.execute("SET threads = $1", [threads])
                return _WORK[task.step](_Work(con, files, config, task, folder))
    except GpucostError as error:
        fix = _as_named(error.fix, task, folder) if error.fix else None
        raise TaskError(f"{task.name}: {_as_named(error.message, task, folder)}", fix) from error
    except Exception as error:
        words = str(error).strip().splitlines()[0] if str(error).strip() else type(error).__name__
        raise TaskError(f"{task.name}: {words}", "run it again: what is done stays; [engine] memory gives a task more") from error


def _local_config(config_json: str, task: Task, folder: Path) -> Config:
    """The configuration, its price files written where this task can read them."""
    told = json.loads(config_json)
    for key, (path, text) in task.extra.get("files", {}).items():
        near = _near(folder, key, path)
        near.write_text(text, encoding="utf-8")
        told["prices"][key] = str(near)
    return Config.model_validate(told)


def _near(folder: Path, key: str, path: str) -> Path:
    """Where a task has its copy of a price file."""
    return folder / f"{key}{Path(path).suffix}"


def _as_named(text: str, task: Task, folder: Path) -> str:
    """A text that names a price file by the path that its user gave, not by the task's copy."""
    for key, (path, _) in task.extra.get("files", {}).items():
        text = text.replace(str(_near(folder, key, path)), path)
    return text


@cache
def _empty_store() -> bytes:
    """An empty store, whose schema is made once a process."""
    with disk.temporary() as folder:
        path = folder / "store.duckdb"
        with Store(path).write():
            pass
        return path.read_bytes()


@dataclass(slots=True)
class _Work:
    """A task at work: its store is open, and its files lie in `folder` where the lake is elsewhere."""

    con: DuckDBPyConnection
    files: LakeFiles
    config: Config
    task: Task
    folder: Path

    def files_of(self, table: str, cluster: str | None = None, *, of_all: bool = True) -> list[LakeFile]:
        """The files of a table that the task was given, of one cluster or of all."""
        return [file for of, file in self.task.inputs.get(table, ()) if of_all or of == cluster]

    def view(self, found: Iterable[LakeFile]) -> bool:
        """Make the view lake_rows of these files; whether there are any."""
        return transfer.view_rows(self.con, self.files, self.folder, found)

    def enter_raw(self, names: Iterable[str], cluster: str | None) -> None:
        """Fill raw tables with the rows of one cluster, or of none."""
        for name in names:
            if self.view(self.files_of(f"raw/{name}", cluster, of_all=False)):
                transfer.enter(self.con, BY_NAME[name], cluster, self.files.shown())

    def fill(self, folder: str, *names: str, where: str = "true") -> None:
        """Fill tables with what earlier steps wrote: of it what `where` says."""
        for name in names:
            if self.view(self.files_of(f"{folder}/{name}")):
                self.con.execute(f"INSERT INTO {name} BY NAME SELECT * FROM lake_rows WHERE {where}")  # noqa: S608 - our own names

    def make(self, folder: str, name: str, columns: str, where: str = "true") -> None:
        """Make a temporary table of these columns, of what an earlier step wrote of it."""
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE {name} ({columns})")
        self.fill(folder, name, where=where)

    def write(
        self, folder: str, tables: Mapping[str, str], *, cluster: str | None = None, day: str | None = None
    ) -> dict[str, Any]:
        """Write what these statements select, and the marker that names the files; returns the marker's content."""
        parts = [partition("cluster", cluster)] if STEPS[self.task.step].per != "lake" else []
        parts += [partition("day", day)] if day is not None else []
        written = {}
        for name, statement in tables.items():
            part = self.folder / f"{name}-{uuid4().hex}.parquet"
            rows = self.con.execute(f"COPY ({statement}) TO '{part}' (FORMAT parquet, COMPRESSION zstd)").fetchall()[0][0]
            size, sha256 = part.stat().st_size, checksum(part)
            place = f"attributed/{name}" if folder == "days" else f"attributed/{folder}/{name}"
            # a name of its own: of two runs of one task, each is whole
            place = "/".join([place, *parts, f"{self.task.key[:16]}-{uuid4().hex[:12]}.parquet"])
            if rows:
                self.files.put(place, part)
                written[name] = LakeFile(place, rows, size, sha256, "")._asdict()
        place = marker(self.task.step, self.task.key, cluster, day, self.task.bucket)
        if content := self.files.read(place):
            # Another run of the same task was first, and its files may be in use.
            self.files.delete(file["name"] for file in written.values())
            return dict(json.loads(content)["tables"])
        self.files.write(place, json.dumps({"task": self.task.name, "tables": written}).encode())
        return written


def _inventory(work: _Work) -> dict[str, Any]:
    from gpucost.collect.prometheus.queries import stored_needs

    con, config, names = work.con, work.config, work.task.clusters
    for cluster in names:
        work.enter_raw((name for name in _RAW_OF_CLUSTERS if not BY_NAME[name].is_by_series), cluster)
    work.enter_raw(("bills", "bill_rows"), None)  # where teams go by what bills carry
    if names:
        _enter_series(work)
    # Of servers and clusters that are expected, each task knows its own; one without a cluster those that never told anything.
    declared = [one for one in config.clusters if one.name in (names or work.task.extra["silent"])]
    servers = [one.model_copy(update={"cluster": one.cluster or one.source}) for one in config.prometheus
               if not names and one.source in work.task.extra["silent"]]  # fmt: skip
    own = config.model_copy(update={"clusters": declared, "prometheus": servers})
    needs = stored_needs(config.activity.device_metric, config.activity.mig_metric)
    inventory.stage(con, own, needs, work.task.extra["heard"])
    run_stage(con, attribute.DAYS, "17_absences")
    if config.prices.cost_basis == "node":
        con.execute(f"CREATE OR REPLACE TEMP TABLE request_gaps ({_REQUEST_GAPS})")
    else:
        run_stage(con, attribute.BASIS, "40_request_gaps")
    tables = {name: f"FROM {name}" for name in _OF_INVENTORY}
    tables["allocations"] += " ORDER BY held_from_ms, allocation_id"
    tables["node_devices"] += " ORDER BY node_id, series_id"
    return {"tables": work.write("inventory", tables, cluster="+".join(names))}


_REQUEST_GAPS = "cluster VARCHAR, from_ms BIGINT, to_ms BIGINT"
_UNSEEN_TIME = "node_id UBIGINT, from_ms BIGINT, to_ms BIGINT, price_per_hour DECIMAL(38, 9), price_as_of DATE, up_ratio DOUBLE"


def _rows_of(work: _Work, table: str, columns: str) -> str:
    """A statement that reads a table of series where it lies, of all of the task's clusters; '' where there is nothing of it.

    A series' number is its key, which is the same in every task; where there are several clusters, of its cluster.
    """
    parts = []
    for cluster in work.task.clusters:
        if rows := transfer.parquet(work.files, work.folder, work.files_of(f"raw/{table}", cluster, of_all=False)):
            name = f"'{transfer.quoted(cluster)}'"
            number = f"hash({name}, series_key)" if len(work.task.clusters) > 1 else "series_key"
            parts.append(f"SELECT {number} AS series_id, {columns.format(cluster=name)} FROM ({rows})")  # noqa: S608 - quoted
    return " UNION ALL BY NAME ".join(parts)


_TWICE = "SELECT count(*) > count(DISTINCT series_id) FROM series"


def _enter_series(work: _Work) -> None:
    """Let series and samples be read where they lie: inventory wants few of their columns, and each only once or twice."""
    con = work.con
    if rows := _rows_of(work, "series", "series_key AS key, source, {cluster} AS cluster, metric, labels"):
        con.execute(f"DROP TABLE series; CREATE VIEW series AS {rows}")
        if con.execute(_TWICE).fetchall()[0][0]:  # it is written once a month
            con.execute("CREATE TABLE first_series AS FROM series QUALIFY row_number() OVER (PARTITION BY series_id) = 1")
            con.execute("DROP VIEW series; CREATE VIEW series AS FROM first_series")
    if rows := _rows_of(work, "states", "value, first_ms, last_ms"):
        con.execute(f"CREATE VIEW cut_states AS {rows}")
        con.execute("DROP TABLE states")
        con.execute(f"CREATE TABLE states AS WITH {STITCHED}")
    if rows := _rows_of(work, "blocks", "* EXCLUDE (series_key)"):
        con.execute(f"DROP TABLE blocks; CREATE VIEW blocks AS {rows}")


# Warnings name a price file by the path that its user gave.
_NAMED = "UPDATE warnings SET message = replace(message, $near, $path), fix = replace(fix, $near, $path)"


def _price(work: _Work) -> dict[str, Any]:
    con, config = work.con, work.config
    work.enter_raw(_RAW_OF_NONE, None)
    inventory.declare(con)
    inventory.load_settings(con, config, work.task.extra["heard"])
    work.fill(
        "inventory",
        "nodes",
        "collected",
        "coverage_gaps",
        "node_stops",
        "warnings",
        "node_hosts",
        "unlisted_holdings",
        "unlisted_nodes",
    )
    work.make("inventory", "request_gaps", _REQUEST_GAPS)
    price.stage(con, config)
    price.warn_of_unlisted(con, config)
    for key, (path, _) in work.task.extra.get("files", {}).items():
        con.execute(_NAMED, {"near": str(_near(work.folder, key, path)), "path": path})
    attribute.split_prices(con, known=("40_request_gaps",))
    run_stage(con, attribute.DAYS, "15_unseen_time")
    order = {"node_prices": "node_id, from_ms", "billed_hours": "instance_key, from_ms", "unseen_time": "node_id, from_ms",
             "basis_spans": "node_id, from_ms"}  # fmt: skip
    tables = {name: f"FROM {name}" + (f" ORDER BY {order[name]}" if name in order else "") for name in OF_PRICE}
    return {"tables": work.write("price", tables)}


def _prepare(work: _Work, nodes: str = "true", held: str = "true", lasting: str = "true") -> None:
    """Fill what the days of one cluster are made from: of nodes, of what was held and of what lasted, those that are said."""
    con, config = work.con, work.config
    inventory.declare(con)
    inventory.load_settings(con, config, work.task.extra["heard"])
    clusters = ", ".join(f"'{transfer.quoted(name)}'" for name in work.task.clusters)
    work.fill("price", "nodes", where=f"cluster IN ({clusters}) AND {nodes}")
    work.fill("price", "collected", where=f"cluster IN ({clusters})")
    own = "node_id IN (SELECT node_id FROM nodes)"
    work.fill("price", "node_stops", where=own)
    work.fill("price", "node_prices", where=f"{own} AND {lasting}")
    work.make("price", "unseen_time", _UNSEEN_TIME, f"{own} AND {lasting}")
    work.make(
        "price", "basis_spans", "node_id UBIGINT, from_ms BIGINT, to_ms BIGINT, gpu_fraction DOUBLE, cpu_fraction DOUBLE",
        f"{own} AND {lasting}",
    )  # fmt: skip
    work.fill("inventory", "allocations", where=f"{own} AND {held}")
    work.make(
        "inventory",
        "absences",
        "node_id UBIGINT, cause VARCHAR, gpus DOUBLE, from_ms BIGINT, to_ms BIGINT",
        f"{own} AND {lasting}",
    )
    work.fill("inventory", "node_hosts", where=own)
    work.fill(
        "inventory", "allocation_devices", "told_activity", "allocation_teams", "allocation_hosts",
        where="allocation_id IN (SELECT allocation_id FROM allocations)",
    )  # fmt: skip


def _days(work: _Work) -> dict[str, Any]:
    _prepare(work)
    con = work.con
    attribute.load_local_days(con, work.config.tz, *con.execute(attribute.COVERED).fetchall()[0])
    run_stage(con, attribute.DAYS, "20_day_fingerprints")
    days = con.execute("SELECT from_ms, to_ms, fingerprint::VARCHAR FROM day_fingerprints ORDER BY from_ms").fetchall()
    gpus = con.execute("SELECT coalesce(sum(gpu_count), 0) FROM nodes").fetchall()[0][0]
    return {"days": days, "gpus": gpus}


# The lists of samples that a span needs: of all other hours the sums tell enough.
_LISTS = """
UPDATE blocks SET vals = r.vals, offsets_ms = r.offsets_ms
FROM (
    SELECT series_id, hour, vals, offsets_ms FROM lake_blocks
    WHERE hour >= $from_hour AND hour <= $to_hour
        AND (series_id, hour) IN (SELECT (series_id, hour) FROM device_readings WHERE is_uneven)
) AS r
WHERE blocks.series_id = r.series_id AND blocks.hour = r.hour"""
_SUMS = """
CREATE TABLE blocks AS
SELECT * REPLACE (CASE WHEN $with_lists THEN vals END AS vals, CASE WHEN $with_lists THEN offsets_ms END AS offsets_ms)
FROM lake_blocks SEMI JOIN node_devices USING (series_id)
WHERE hour >= $from_hour AND hour <= $to_hour
ORDER BY series_id, hour"""
_OTHER_THRESHOLD = f"""
SELECT count(*) > 0 FROM (
    SELECT DISTINCT series_id, idle_threshold FROM lake_blocks WHERE hour >= $from_hour AND hour <= $to_hour
) AS b
JOIN ({attribute.IDLE_BELOW}) AS d USING (series_id)
WHERE b.idle_threshold <> d.idle_below"""  # noqa: S608 - a text of our own


def _attribute(work: _Work) -> dict[str, Any]:
    con, tz = work.con, work.config.tz
    start, end = work.task.days[0][0], work.task.days[-1][1]
    number, buckets = work.task.bucket
    _prepare(
        work,
        nodes="true" if buckets == 1 else f"node_id % {buckets} = {number}",
        held=f"held_from_ms < {end + NEIGHBOR_MS} AND held_to_ms > {start - NEIGHBOR_MS}",
        lasting=f"from_ms < {end + NEIGHBOR_MS} AND to_ms > {start - NEIGHBOR_MS}",
    )
    con.execute("ALTER TABLE node_devices ALTER series_id TYPE UBIGINT")
    work.fill("inventory", "node_devices", where=f"first_ms < {end + NEIGHBOR_MS} AND end_ms > {start - NEIGHBOR_MS}")
    hours = {"from_hour": (start - NEIGHBOR_MS) // MS_PER_HOUR, "to_hour": (end + NEIGHBOR_MS) // MS_PER_HOUR}
    counted_anew = True
    if rows := _rows_of(work, "blocks", "* EXCLUDE (series_key)"):
        con.execute(f"CREATE TEMP VIEW lake_blocks AS {rows}")
        counted_anew = con.execute(_OTHER_THRESHOLD, hours).fetchall()[0][0]
        # in which order rows lie tells which hours adjoin
        con.execute("SET preserve_insertion_order = true; DROP TABLE blocks")
        con.execute(_SUMS, {**hours, "with_lists": counted_anew})
        con.execute("SET preserve_insertion_order = false")
        if counted_anew:
            attribute.recount_idle(con, tz)
    # absences, prices and samples of other nodes are no part of it, but all devices say how often they were scraped
    attribute.load_local_days(con, tz, start, end)

    def own_devices() -> None:
        con.execute("DELETE FROM node_devices WHERE node_id NOT IN (SELECT node_id FROM nodes)")
        con.execute("DELETE FROM blocks WHERE series_id NOT IN (SELECT series_id FROM node_devices)")

    def lists() -> None:
        if not counted_anew:
            con.execute(_LISTS, hours)
        attribute.refuse_lost_readings(con, tz)

    attribute.attribute_span(con, (start, end), lists, own_devices if buckets > 1 else None)
    order = "from_ms, node_id, allocation_id"
    orders = {"cost_runs": f"{order}, kind, team", "node_runs": "from_ms, node_id", "activity_hours": "from_ms, allocation_id",
              "cost_daily": f"{order}, kind, team", "node_daily": "from_ms, node_id, price_source"}  # fmt: skip
    cluster = "+".join(work.task.clusters)
    count = 0
    for (day_start, day_end), name, key in zip(work.task.days, work.task.extra["names"], work.task.extra["keys"], strict=True):
        within = f"from_ms >= {day_start} AND from_ms < {day_end}"
        one = replace(work.task, key=key)
        tables = {table: f"FROM {table} WHERE {within} ORDER BY {orders[table]}" for table in ATTRIBUTED}
        written = replace(work, task=one).write("days", tables, cluster=cluster, day=name)
        count += sum(int(file["rows"]) for file in written.values())
    return {"rows": count}


def _warnings(work: _Work) -> dict[str, Any]:
    con, config = work.con, work.config
    inventory.declare(con)
    inventory.load_settings(con, config, work.task.extra["heard"])
    work.fill("price", "nodes", "node_stops", "coverage_gaps", "billed_hours", "billed_nodes", "warnings")
    work.make("price", "unseen_time", _UNSEEN_TIME)
    work.fill("inventory", "unproven_ends")
    work.fill("days", "node_runs", where="over_allocated_gpu_ms > 0")
    work.fill("days", "cost_runs", where="allocation_id IN (SELECT allocation_id FROM unproven_ends)")
    run_stage(con, attribute.DAYS, "30_warnings")
    return {"tables": work.write("warnings", {"warnings": "FROM warnings"})}


_WORK: dict[str, Callable[[_Work], dict[str, Any]]] = {
    "inventory": _inventory,
    "price": _price,
    "days": _days,
    "attribute": _attribute,
    "warnings": _warnings,
}
