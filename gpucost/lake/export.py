"""`gpucost lake export`: a store's collected data as Parquet files by cluster and day."""

from __future__ import annotations

import hashlib
import socket
from collections import defaultdict
from dataclasses import dataclass, field, replace
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any

from gpucost import disk
from gpucost.lake import manifest
from gpucost.lake.files import PARTS, LakeFiles, checksum
from gpucost.lake.manifest import LakeFile, LakeManifest, partition
from gpucost.lake.tables import RAW, RawTable, parquet
from gpucost.periods import MS_PER_DAY, to_ms
from gpucost.records import frozen_dataclass
from gpucost.store.schema import latest_version
from gpucost.store.sqlfiles import value

if TYPE_CHECKING:
    from collections.abc import Callable

    from duckdb import DuckDBPyConnection

    from gpucost.config.model import Config
    from gpucost.store.connection import Store

_MEMORY = "SET memory_limit = '900MB'"
# Small row groups: a reader of one hour of a day reads little more.
_GROUP_ROWS = {"blocks": 20_480}


@dataclass(slots=True)
class Exported:
    """The result of an export: new files, and the numbers of new and unchanged partitions."""

    partitions: int = 0
    unchanged: int = 0
    files: list[LakeFile] = field(default_factory=list)


def export(
    config: Config,
    store: Store,
    files: LakeFiles,
    *,
    everything: bool = False,
    show_progress: Callable[[str], None] = lambda _: None,
) -> Exported:
    """Write the store's data that the lake lacks; a cluster's new files become visible at once.

    `everything` also checks days without a new load, and replaces broken files. Raises StoreError for a
    partition of another writer; its cluster is then left unchanged.
    """
    lake, result = manifest.load(files), Exported()
    with disk.temporary() as folder, store.read(folder, *files.folders()) as con:
        con.execute(_MEMORY)
        writer, digests = writer_name(con, config, store), _digests(con)
        existing = {manifest.cluster: manifest for manifest in lake.manifests if manifest.writer == writer}
        for cluster in sorted(digests, key=lambda name: (name is None, name or "")):
            before = existing.get(cluster) or LakeManifest(cluster, writer)
            run = _Export(con, files, folder, before, result, everything)
            days = sorted(digests[cluster])
            others = [manifest for manifest in lake.manifests_of(cluster) if manifest is not before]
            manifest.refuse_clash(files, [*others, replace(before, days={day: {} for day in days})])
            after = replace(
                before, schema=latest_version(), days=dict(before.days), stamps=dict(before.stamps)
            )
            sources, first, last = con.execute(_HEARD, {"cluster": cluster}).fetchall()[0]
            after.sources = sorted({*before.sources, *(sources or ())})
            if first is not None:
                since, until = before.heard or (first, last)
                after.heard = min(first, since), max(last, until)
            for number, day in enumerate(days, 1):
                show_progress(f"{cluster or 'bills and prices'} {day} ({number} of {len(days)})")
                tables = run.day(day, digests[cluster][day])
                if stamp := digests[cluster][day].get(_STAMP):
                    after.stamps[day] = stamp
                is_same = tables == before.days.get(day, {})
                result.unchanged += is_same
                result.partitions += not is_same
                after.days[day] = tables
            if after != before:
                after.save(files)
                files.delete({file.name for file in before.files} - {file.name for file in after.files})
            # An interrupted export leaves files of this writer that its manifest does not list; they are
            # removed a day later.
            named = {file.name for file in after.files}
            for table in RAW:
                folder_of = f"raw/{table.name}/{partition('cluster', cluster)}"
                files.remove_abandoned(folder_of, named, begins=f"{_short(writer)}-")
        if files.is_local:
            files.remove_abandoned(PARTS, ())
    return result


def writer_name(con: DuckDBPyConnection, config: Config, store: Store) -> str:
    """The writer of a store's data: `[lake] writer`, otherwise the host, store file and its creation time."""
    if config.lake.writer:
        return config.lake.writer
    made = value(con, "SELECT min(applied_at) FROM schema_version")
    return f"{socket.gethostname()}:{store.path.resolve()} of {made:%Y-%m-%dT%H:%M:%S}"


_HEARD = """
SELECT list(DISTINCT source), min(from_ms), max(to_ms)
FROM (
    SELECT any_value(s.source) AS source, min(t.first_ms) AS from_ms, max(t.last_ms) AS to_ms
    FROM series AS s LEFT JOIN states AS t USING (series_id) WHERE s.cluster = $cluster GROUP BY s.source
    UNION ALL SELECT source, min(from_ms), max(to_ms) FROM loads WHERE kind = 'slurm' AND source = $cluster GROUP BY source
)"""


# A store drops lists of samples that its figures do not need (store compact): the lake keeps them.
_KEPT_LISTS = """
UPDATE lake_part SET vals = kept.vals FROM ({}) AS kept
WHERE lake_part.vals IS NULL AND lake_part.series_key = kept.series_key AND lake_part.hour = kept.hour
    AND lake_part.samples = kept.samples AND lake_part.value_sum = kept.value_sum"""


@frozen_dataclass
class _Export:
    """The export of one cluster."""

    con: DuckDBPyConnection
    files: LakeFiles
    folder: Path
    before: LakeManifest
    result: Exported
    everything: bool

    def day(self, day: str, digests: dict[str, str]) -> dict[str, LakeFile]:
        """The files of a day by table: existing ones with equal rows, otherwise new ones."""
        existing, stamp = self.before.days.get(day, {}), digests.get(_STAMP)
        tables = {}
        for table in RAW:
            file = existing.get(table.name)
            if table.by_stamp:
                is_new = stamp is not None and (self.everything or stamp != self.before.stamps.get(day))
            else:
                is_new = self.everything or digests.get(table.name) != (file.digest if file else None)
            if is_new:
                is_lost = self.everything and file and not self.files.is_whole(file)
                file = self._write(table, day, None if is_lost else file)
            if file:
                tables[table.name] = file
        return tables

    def _write(self, table: RawTable, day: str, before: LakeFile | None) -> LakeFile | None:
        """Write a day of a table. Returns `before` if its rows are equal, None without rows."""
        con, params = self.con, dict[str, Any](cluster=self.before.cluster)
        rows = f"SELECT * EXCLUDE (cluster, day) FROM ({table.rows})"  # noqa: S608 - statements of our own
        if table.by_stamp:
            start = to_ms(datetime.fromisoformat(f"{day}T00:00Z"))
            params |= {"from_ms": start, "to_ms": start + MS_PER_DAY}
        else:
            rows += " WHERE cluster IS NOT DISTINCT FROM $cluster AND day IS NOT DISTINCT FROM $day"
            params["day"] = day or None
        con.execute(f"CREATE OR REPLACE TEMP TABLE lake_part AS {rows}", params)
        if table.name == "blocks" and before:
            con.execute(_KEPT_LISTS.format(parquet(self.files, self.folder, [before])))
        count, digest = con.execute(
            "SELECT count(*), coalesce(sum(hash(*COLUMNS(*))), 0)::VARCHAR FROM lake_part"
        ).fetchall()[0]
        if not count:
            return None
        if before and before.digest == digest:
            return before
        part = self.folder / f"{table.name}.parquet"
        group = _GROUP_ROWS.get(table.name, 122_880)
        con.execute(
            f"COPY (FROM lake_part ORDER BY {table.order}) TO '{part}' (FORMAT parquet, COMPRESSION zstd, ROW_GROUP_SIZE {group})"
        )
        sha256, size = checksum(part), part.stat().st_size
        folder = f"raw/{table.name}/{partition('cluster', self.before.cluster)}/{partition('day', day)}"
        file = LakeFile(
            f"{folder}/{_short(self.before.writer)}-{sha256[:16]}.parquet", count, size, sha256, digest
        )
        self.files.write(file.name, part)
        self.result.files.append(file)
        return file


def _short(writer: str) -> str:
    return hashlib.sha256(writer.encode()).hexdigest()[:8]


# A day's samples change only with a load that touches it; runs of equal values extend into the neighboring
# days.
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
# The key of the tables of samples among the digests of a day.
_STAMP = "stamp"


def _digests(con: DuckDBPyConnection) -> dict[str | None, dict[str, dict[str, str]]]:
    """The digest of each table's rows by cluster and day.

    For tables of samples, it is a digest of the loads that can have changed them.
    """
    found: dict[str | None, dict[str, dict[str, str]]] = defaultdict(lambda: defaultdict(dict))
    for cluster, day, stamp in con.execute(_STAMPS).fetchall():
        found[cluster][day][_STAMP] = stamp
    for table in RAW:
        if not table.by_stamp:
            con.execute(
                "SELECT cluster, coalesce(day, ''), sum(hash(*COLUMNS(* EXCLUDE (cluster, day))))::VARCHAR "  # noqa: S608
                f"FROM ({table.rows}) GROUP BY ALL"
            )
            for cluster, day, digest in con.fetchall():
                found[cluster][day][table.name] = digest
    return found
