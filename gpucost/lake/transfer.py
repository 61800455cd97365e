"""Raw data between stores and a lake: what a store collected becomes partitions, and partitions become a store."""

from __future__ import annotations

import hashlib
import json
import socket
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucost import disk
from gpucost.errors import NoDataError, StoreError
from gpucost.lake import manifest
from gpucost.lake.files import PARTS, LakeFiles, checksum
from gpucost.lake.manifest import ClashError, Lake, LakeFile, Manifest, partition
from gpucost.lake.tables import BY_NAME, RAW, RawTable
from gpucost.periods import MS_PER_DAY, MS_PER_HOUR, from_ms, to_ms
from gpucost.store.schema import latest_version

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.periods import Period
    from gpucost.store.connection import Store

_MEMORY = "SET memory_limit = '900MB'"
# Rows of this many are read together: who wants an hour of a day reads little more.
_GROUP_ROWS = {"blocks": 20_480}


def _silent(_: str) -> None:
    return


@dataclass(slots=True)
class Exported:
    """What an export came to: partitions and files written, and those that were as they are; clusters that only the lake has."""

    partitions: int = 0
    unchanged: int = 0
    files: int = 0
    rows: int = 0
    size: int = 0
    strangers: list[str] = field(default_factory=list)


def writer_name(con: DuckDBPyConnection, config: Config, store: Store) -> str:
    """Who writes what this store holds: as `[lake] writer` says, else this machine, the store's file and when it was made."""
    if config.lake.writer:
        return config.lake.writer
    made = con.execute("SELECT min(applied_at) FROM schema_version").fetchall()[0][0]
    return f"{socket.gethostname()}:{store.path.resolve()} of {made:%Y-%m-%dT%H:%M:%S}"


def export(
    config: Config,
    store: Store,
    files: LakeFiles,
    *,
    everything: bool = False,
    since: str = "",
    tell: Callable[[str], None] = _silent,
) -> Exported:
    """Write what the store holds into the lake: of each (cluster, day) what differs, each whole or not at all.

    `everything` looks at days that no load touched since the last export, too; samples before `since` stay as they are. Raises
    StoreError where another writer holds one of the partitions: then nothing of its cluster was written.
    """
    lake = manifest.read(files, missing_ok=True)
    result = Exported()
    with disk.temporary() as folder, store.read(folder, *files.folders()) as con:
        con.execute(_MEMORY)
        writer = writer_name(con, config, store)
        was_ended = files.read(_going_on(writer)) is not None
        light = _light_digests(con)
        stamps = _stamps(con)
        clusters = sorted({*stamps, *(cluster for cluster, _ in light)}, key=lambda name: (name is None, name or ""))
        result.strangers = [
            one.cluster
            for one in lake.manifests
            if one.writer == writer and one.days and one.cluster and one.cluster not in clusters
        ]
        for cluster in clusters:
            own = next((one for one in lake.of(cluster) if one.writer == writer), None) or Manifest(cluster, writer)
            days = sorted({*stamps.get(cluster, {}), *(day for of, day in light if of == cluster)})
            _refuse_clash(files, lake.of(cluster), own, days)
            before = replace(own, days=dict(own.days), stamps=dict(own.stamps))
            own.schema = latest_version()
            _note_sources(con, own)
            _Export(con, files, folder, own, before, result, tell).run(
                {day: stamps.get(cluster, {}).get(day) if day >= since else None for day in days},
                {day: light.get((cluster, day), {}) for day in days},
                since,
                everything=everything,
            )
    if was_ended or result.files:
        _end(files, writer, was_ended=was_ended)
    return result


def _going_on(writer: str) -> str:
    """The file that is there while a writer exports: found at a start, it tells of an export that was ended."""
    return f"_gpucost/exports/{_short(writer)}.json"


def _end(files: LakeFiles, writer: str, *, was_ended: bool) -> None:
    """Remove what an export that was ended left behind: files of this writer that no manifest names, and halves of any."""
    is_clean = not files.is_local or files.remove_abandoned(PARTS, ())
    if was_ended:
        own = [one for one in manifest.all_of(files) if one.writer == writer]
        named = {name for one in own for name in _names(one.days)}
        is_clean &= files.remove_abandoned("raw", named, begins=f"{_short(writer)}-")
    if is_clean:
        files.delete([_going_on(writer)])


def _note_sources(con: DuckDBPyConnection, own: Manifest) -> None:
    """Note in the manifest who told of its cluster, and from when to when; what was heard before stays."""
    sources, first, last = con.execute(_HEARD, {"cluster": own.cluster}).fetchall()[0]
    own.sources = sorted({*own.sources, *(sources or ())})
    if first is not None:
        own.heard = (min(first, own.heard[0]), max(last, own.heard[1])) if own.heard else (first, last)


_HEARD = """
SELECT list(DISTINCT source), min(from_ms), max(to_ms)
FROM (
    SELECT any_value(s.source) AS source, min(t.first_ms) AS from_ms, max(t.last_ms) AS to_ms
    FROM series AS s LEFT JOIN states AS t USING (series_id) WHERE s.cluster = $cluster GROUP BY s.source
    UNION ALL SELECT source, min(from_ms), max(to_ms) FROM loads WHERE kind = 'slurm' AND source = $cluster GROUP BY source
)"""


def _refuse_clash(files: LakeFiles, manifests: Iterable[Manifest], own: Manifest, days: Iterable[str]) -> None:
    """Raise ClashError where another writer has one of the days; what is of no cluster is each writer's own."""
    others = [one for one in manifests if one.writer != own.writer and own.cluster is not None]
    for day in days:
        for other in others:
            if day in other.days:
                raise manifest.clash(files, own.cluster, day, other.writer, own.writer)


_KEPT_LISTS = """
UPDATE lake_part SET vals = kept.vals FROM ({}) AS kept
WHERE lake_part.vals IS NULL AND lake_part.series_key = kept.series_key AND lake_part.hour = kept.hour
    AND lake_part.samples = kept.samples AND lake_part.value_sum = kept.value_sum"""


@dataclass(slots=True)
class _Export:
    """The export of one cluster."""

    con: DuckDBPyConnection
    files: LakeFiles
    folder: Path
    own: Manifest
    before: Manifest
    result: Exported
    tell: Callable[[str], None]

    def run(
        self, stamps: Mapping[str, str | None], light: Mapping[str, Mapping[str, str]], since: str, *, everything: bool
    ) -> None:
        """Write the days that differ, the manifest after each, and remove the files that it names no more.

        Of days before `since` the store knows no samples, and so not which series they are of: what is there of those stays.
        """
        for number, (day, stamp) in enumerate(stamps.items(), 1):
            tables = self.own.days.get(day, {})
            touched = everything or self.own.stamps.get(day) != stamp
            wanted = dict(light[day])
            if everything:
                tables = {name: file for name, file in tables.items() if self.files.is_whole(file)}
            changed = [name for name, digest in wanted.items() if name not in tables or tables[name].digest != digest]
            # a lake may have tables of an earlier version
            gone = [name for name in tables if name not in wanted and (name not in BY_NAME or not BY_NAME[name].by_stamp)]
            if self.own.cluster and day < since:
                changed, gone = ([name for name in names if name != "series"] for names in (changed, gone))
            if not (changed or gone or (stamp and touched)):
                self.result.unchanged += 1
                continue
            self.tell(f"{self.own.cluster or 'bills and prices'} {day} ({number} of {len(stamps)})")
            files = {name: file for name, file in tables.items() if name not in gone}
            for name in changed:
                files |= self._write(BY_NAME[name], day, files.get(name))
            if stamp and touched:
                for table in RAW:
                    if table.by_stamp:
                        written = self._write(table, day, files.get(table.name))
                        files = {name: file for name, file in files.items() if name != table.name} | written
                self.own.stamps[day] = stamp
            if files != tables:
                self.result.partitions += 1
                self.own.days[day] = files
            else:
                self.result.unchanged += 1
            self.own.save(self.files)
            if day not in self.before.days:
                self._check_clash()
        self.files.delete(_names(self.before.days) - _names(self.own.days))

    def _check_clash(self) -> None:
        """Take back the days that this run brought where another writer came at the same moment: the later look sees both."""
        own, before = self.own, self.before
        try:
            _refuse_clash(self.files, manifest.of_cluster(self.files, own.cluster), own, set(own.days) - set(before.days))
        except ClashError:
            stamps = {day: stamp for day, stamp in own.stamps.items() if day in before.stamps}
            kept = replace(before, stamps=stamps, days={day: own.days[day] for day in before.days})
            if kept.days:
                kept.save(self.files)
            else:
                self.files.delete([own.place])
            self.files.delete(_names(own.days) - _names(kept.days))
            raise

    def _write(self, table: RawTable, day: str, before: LakeFile | None) -> dict[str, LakeFile]:
        """Write a day of a table, where it differs from what is there; nothing where it has no rows."""
        params: dict[str, Any] = {}
        if table.by_stamp:
            start = int(datetime.fromisoformat(day).replace(tzinfo=UTC).timestamp()) * 1000
            params = {"cluster": self.own.cluster, "from_ms": start, "to_ms": start + MS_PER_DAY}
        else:
            params = {"cluster": self.own.cluster, "day": day or None}
        chosen = f"SELECT * EXCLUDE (cluster, day) FROM ({table.rows})"  # noqa: S608 - statements of our own
        if not table.by_stamp:
            chosen += " WHERE cluster IS NOT DISTINCT FROM $cluster AND day IS NOT DISTINCT FROM $day"
        self.con.execute(f"CREATE OR REPLACE TEMP TABLE lake_part AS {chosen}", params)
        if table.name == "blocks" and before:
            # a store lets lists of samples go that no figure of its needs (store compact): those that the lake has stay
            self.con.execute(_KEPT_LISTS.format(parquet(self.files, self.folder, [before])))
        rows, digest_now = self.con.execute(
            "SELECT count(*), coalesce(sum(hash(*COLUMNS(*))), 0)::VARCHAR FROM lake_part"
        ).fetchall()[0]
        if not rows:
            return {}
        if before and before.digest == digest_now:
            return {table.name: before}
        part = self.folder / f"{table.name}.parquet"
        size = _GROUP_ROWS.get(table.name, 122_880)
        self.con.execute(
            f"COPY (FROM lake_part ORDER BY {table.order}) TO '{part}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {size})"
        )
        sha256, size = checksum(part), part.stat().st_size
        place = f"raw/{table.name}/{partition('cluster', self.own.cluster)}/{partition('day', day)}"
        name = f"{place}/{_short(self.own.writer)}-{sha256[:16]}.parquet"
        if not self.result.files:
            self.files.write(_going_on(self.own.writer), json.dumps({"writer": self.own.writer}).encode())
        self.files.put(name, part)
        self.result.files += 1
        self.result.rows += rows
        self.result.size += size
        return {table.name: LakeFile(name, rows, size, sha256, digest_now)}


def _names(days: Mapping[str, Mapping[str, LakeFile]]) -> set[str]:
    return {file.name for tables in days.values() for file in tables.values()}


def _short(writer: str) -> str:
    return hashlib.sha256(writer.encode()).hexdigest()[:8]


def _light_digests(con: DuckDBPyConnection) -> dict[tuple[str | None, str], dict[str, str]]:
    """By (cluster, day) the digest of each table's rows, of the tables that are looked at whole."""
    found: dict[tuple[str | None, str], dict[str, str]] = defaultdict(dict)
    for table in RAW:
        if not table.by_stamp:
            con.execute(
                "SELECT cluster, coalesce(day, ''), sum(hash(*COLUMNS(* EXCLUDE (cluster, day))))::VARCHAR "  # noqa: S608
                f"FROM ({table.rows}) GROUP BY ALL"
            )
            for cluster, day, digest in con.fetchall():
                found[cluster, day][table.name] = digest
    return found


# A day's samples changed only where a load touched it; runs of equal values reach into the days beside it.
_STAMPS = """
WITH owners AS (SELECT DISTINCT source, cluster FROM series),
spans AS (
    SELECT s.cluster, min(t.first_ms) AS from_ms, max(t.last_ms) + 1 AS to_ms
    FROM (
        SELECT series_id, first_ms, last_ms FROM states
        UNION ALL
        SELECT series_id, min(hour)::BIGINT * 3600000, max(hour)::BIGINT * 3600000 + 3599999 FROM blocks GROUP BY series_id
    ) AS t JOIN series AS s USING (series_id)
    GROUP BY ALL
),
days AS (
    SELECT cluster, unnest(range(from_ms // 86400000, (to_ms - 1) // 86400000 + 1)) * 86400000 AS day_ms FROM spans
)
SELECT d.cluster, strftime(epoch_ms(d.day_ms), '%Y-%m-%d') AS day,
    coalesce(sum(hash(l.kind, l.source, l.from_ms, l.to_ms, l.loaded_at)), 0)::VARCHAR
FROM days AS d
LEFT JOIN (FROM owners JOIN loads USING (source)) AS l
    ON l.cluster = d.cluster AND l.kind = 'prometheus' AND l.from_ms < d.day_ms + 172800000 AND d.day_ms - 86400000 < l.to_ms
GROUP BY ALL"""


def _stamps(con: DuckDBPyConnection) -> dict[str | None, dict[str, str]]:
    """By cluster and day, the digest of the loads that may have changed the day's samples."""
    found: dict[str | None, dict[str, str]] = defaultdict(dict)
    for cluster, day, stamp in con.execute(_STAMPS).fetchall():
        found[cluster][day] = stamp
    return found


def drop(files: LakeFiles, writer: str, cluster: str | None = None) -> int:
    """Take out what `writer` wrote, of one cluster or of all; how many partitions. Raises NoDataError where it has none."""
    manifests = [one for one in manifest.all_of(files) if one.writer == writer and cluster in (None, one.cluster)]
    if not any(one.days for one in manifests):
        raise NoDataError(f"nothing in {files.shown()} is of the writer {writer}", "gpucost lake info names the writers")
    count = 0
    for one in manifests:
        count += len(one.days)
        files.delete([one.place])
        files.delete(_names(one.days))
    return count


# What a store holds of a cluster, gone before the lake's rows of it come.
_CLEARED = (
    "DELETE FROM blocks WHERE series_id IN (SELECT series_id FROM series WHERE cluster = $cluster)",
    "DELETE FROM states WHERE series_id IN (SELECT series_id FROM series WHERE cluster = $cluster)",
    "DELETE FROM loads WHERE kind IN ('prometheus', 'slurm') AND source IN (SELECT source FROM series WHERE cluster = $cluster "
    "UNION ALL SELECT $cluster) AND source NOT IN (SELECT source FROM series WHERE cluster <> $cluster)",
    *(
        f"DELETE FROM {table} WHERE source IN (SELECT source FROM series WHERE cluster = $cluster) "  # noqa: S608 - our own names
        "AND source NOT IN (SELECT source FROM series WHERE cluster <> $cluster)"
        for table in ("asked_hours", "dropped_samples")
    ),
    "DELETE FROM progress_values WHERE series_id IN (SELECT series_id FROM progress_series WHERE cluster = $cluster)",
    *(
        f"DELETE FROM {table} WHERE cluster = $cluster"  # noqa: S608 - names of our own
        for table in ("series", "scrape_gaps", "slurm_runs", "slurm_steps", "slurm_nodes", "slurm_events", "slurm_reservations",
                      "slurm_accounts", "slurm_shares", "slurm_devices", "progress_series", "progress_runs")
    ),
)  # fmt: skip
# The loads of a cluster that the lake does not know: what they brought would be lost.
_UNKNOWN_LOADS = """
SELECT min(from_ms) FROM loads AS l
WHERE kind IN ('prometheus', 'slurm') AND (source = $cluster OR source IN (SELECT source FROM series WHERE cluster = $cluster))
    AND hash(l.kind, l.source, l.from_ms, l.to_ms, l.loaded_at) NOT IN (SELECT load_key FROM lake_rows)"""
_SAME_SOURCE = """
SELECT r.source, s.cluster FROM lake_rows AS r JOIN series AS s ON s.source = r.source AND s.key = r.series_key
WHERE s.cluster <> $cluster LIMIT 1"""
_RUNS = """
INSERT INTO collect_runs
SELECT (SELECT coalesce(max(run_id), 0) FROM collect_runs) + row_number() OVER (), kind, source, min(from_ms), max(to_ms),
    min(loaded_at), max(loaded_at)
FROM loads WHERE run_id = 0 GROUP BY kind, source"""
_RUN_IDS = """
UPDATE loads SET run_id = r.run_id
FROM (SELECT kind, source, max(run_id) AS run_id FROM collect_runs GROUP BY ALL) AS r
WHERE loads.run_id = 0 AND loads.kind = r.kind AND loads.source = r.source"""


def import_lake(
    store: Store, lake: Lake, clusters: Iterable[str] = (), since: str = "", tell: Callable[[str], None] = _silent
) -> dict[str, int]:
    """Fill a store with what the lake holds, of these clusters or of all, samples of days before `since` left out; rows by table.

    What the store had of a cluster is replaced. Raises StoreError, and changes nothing, where that would lose what the lake does
    not know, and where two clusters come from servers that cannot be told apart.
    """
    wanted = list(clusters) or lake.clusters
    if missing := [name for name in wanted if name not in lake.clusters]:
        raise NoDataError(f"{lake.files.shown()} holds no cluster {missing[0]}", f"it holds {', '.join(lake.clusters) or 'none'}")
    rows: dict[str, int] = defaultdict(int)
    with disk.temporary() as folder, store.write(folder, *lake.files.folders()) as con:
        con.execute(_MEMORY)
        for cluster in (*wanted, None):
            tell(f"reading {cluster or 'bills and prices'}")
            tables = lake.tables(cluster)
            if since and cluster:
                newer = lake.tables(cluster, [day for day in lake.days(cluster) if day >= since])
                tables = {name: newer.get(name, []) if BY_NAME[name].by_stamp else found for name, found in tables.items()}
            if cluster:
                _clear(con, lake, cluster, tables, folder)
            for table in RAW:
                if (found := tables.get(table.name)) and view_rows(con, lake.files, folder, found):
                    rows[table.name] += enter(con, table, cluster, lake.files.shown())
        con.execute(_RUNS)
        con.execute(_RUN_IDS)
        con.execute("UPDATE attribution_state SET last_load_id = -1")
    return dict(rows)


def _clear(con: DuckDBPyConnection, lake: Lake, cluster: str, tables: Mapping[str, list[LakeFile]], folder: Path) -> None:
    """Make room for a cluster, where nothing is lost by that."""
    # a source may tell of several clusters
    loads = [file for one in (*lake.clusters, None) for file in lake.tables(one).get("loads", [])]
    if not view_rows(con, lake.files, folder, loads):
        con.execute("CREATE OR REPLACE TEMP VIEW lake_rows AS SELECT 0::UBIGINT AS load_key WHERE false")
    unknown = con.execute(_UNKNOWN_LOADS, {"cluster": cluster}).fetchall()[0][0]
    if unknown is not None:
        day = datetime.fromtimestamp(unknown / 1000, UTC).date()
        raise StoreError(
            f"the store holds data of cluster {cluster} that the lake does not have (from {day} on)",
            "gpucost lake export writes it there, or import into another store with --store",
        )
    if tables.get("series"):
        view_rows(con, lake.files, folder, tables["series"])
        if met := con.execute(_SAME_SOURCE, {"cluster": cluster}).fetchone():
            raise StoreError(
                f"clusters {cluster} and {met[1]} both come from a server called {met[0]}: one store cannot tell them apart",
                "import each into a store of its own with --cluster and --store; the lake itself keeps them apart",
            )
    for statement in _CLEARED:
        con.execute(statement, {"cluster": cluster})


_TWICE = """
SELECT any_value(source), billing_period FROM lake_rows
GROUP BY provider, source, billing_account_id, billing_period HAVING count(*) > 1 LIMIT 1"""


def enter(con: DuckDBPyConnection, table: RawTable, cluster: str | None, where: str = "this lake") -> int:
    """Enter the rows of the view lake_rows, of one cluster or of none, into the table; returns how many they are.

    Raises StoreError for a bill that two writers wrote into the lake.
    """
    if table.name == "bills" and (twice := con.execute(_TWICE).fetchone()):
        raise StoreError(
            f"two writers hold the bill {twice[0]} of {twice[1]} in {where}",
            "gpucost lake info names the writers; gpucost lake drop --writer NAME takes one's out",
        )
    count = int(con.execute("SELECT count(*) FROM lake_rows").fetchall()[0][0])
    for statement in table.load.split(";\n"):
        con.execute(statement, {"cluster": cluster} if "$cluster" in statement else None)
    return count


def view_rows(con: DuckDBPyConnection, files: LakeFiles, folder: Path, found: Iterable[LakeFile]) -> bool:
    """Make the view lake_rows of these files, fetched into `folder` where they lie elsewhere; whether there are any."""
    rows = parquet(files, folder, found)
    if rows:
        con.execute(f"CREATE OR REPLACE TEMP VIEW lake_rows AS {rows}")
    return bool(rows)


def parquet(files: LakeFiles, folder: Path, found: Iterable[LakeFile]) -> str:
    """A statement that reads these files, '' for none; what Hive's folders say is no column of theirs."""
    paths = files.each(lambda file: str(files.local(file.name, folder, file.size, file.sha256)), found)
    listed = ", ".join(f"'{quoted(path)}'" for path in paths)
    return f"FROM read_parquet([{listed}], hive_partitioning = false, union_by_name = true)" if paths else ""


def view_blocks(con: DuckDBPyConnection, rows: Mapping[str, str]) -> None:
    """Let `blocks` be read where they lie, by the numbers of the store's series; `rows` are what reads them, by cluster."""
    parts = [
        f"SELECT s.series_id, r.* EXCLUDE (series_key) FROM ({one}) AS r "  # noqa: S608 - paths and names are quoted
        f"JOIN series AS s ON s.key = r.series_key AND s.cluster = '{quoted(cluster)}'"
        for cluster, one in rows.items()
        if one
    ]
    if parts:
        con.execute(f"DROP TABLE blocks; CREATE VIEW blocks AS {' UNION ALL BY NAME '.join(parts)}")


def quoted(text: str) -> str:
    """What stands between quotes in SQL."""
    return text.replace("'", "''")


# The first moment of a source that no load covers, between its first load and the newest of all.
_FIRST_GAP = """
WITH marked AS (
    SELECT source, from_ms, to_ms, max(to_ms) OVER (
        PARTITION BY source ORDER BY from_ms ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS until_ms
    FROM loads WHERE kind = 'prometheus'
)
SELECT least(min(until_ms) FILTER (from_ms > until_ms), max(to_ms)) FROM marked"""


def fill_collector(
    config: Config, store: Store, files: LakeFiles, period: Period | None, now: datetime, tell: Callable[[str], None] = _silent
) -> str:
    """Fill a store with what a collector has to know of what it wrote into the lake: all loads, and the days that it may touch.

    Those are the days from `period` on, from the first time that was never asked for, and those that are asked for again.
    Returns the first of them; '' where the lake has nothing of this writer.
    """
    lake = manifest.read(files, missing_ok=True)
    own = Lake(files, [one for one in lake.manifests if one.writer == config.lake.writer])
    if not any(one.days for one in own.manifests):
        return ""
    import_lake(store, own, since="9999-12-31", tell=tell)
    with store.read() as con:
        first_gap = con.execute(_FIRST_GAP).fetchall()[0][0]
    again = max([source.late_hours for source in config.prometheus], default=0) * MS_PER_HOUR
    late = config.slurm.late_days * MS_PER_DAY
    moments = [
        to_ms(now) - max(again, late),
        *([first_gap] if first_gap is not None else []),
        *([period.start_ms] if period else []),
    ]
    since = f"{from_ms(min(moments) - 2 * MS_PER_DAY):%Y-%m-%d}"
    store.path.unlink()
    import_lake(store, own, since=since, tell=tell)
    return since
