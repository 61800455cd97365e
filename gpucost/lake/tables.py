"""The raw tables of a lake: a store's rows as partitions, and partitions as rows of an empty store.

docs/lake.md shows this table. A store's own numbers (series, loads, bills) are written as keys that are equal
in every store.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from gpucost.errors import StoreError
from gpucost.periods import MS_PER_DAY
from gpucost.records import frozen_dataclass

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from duckdb import DuckDBPyConnection

    from gpucost.lake.files import LakeFiles
    from gpucost.lake.manifest import LakeFile

# The day of an instant in milliseconds, as text.
_DAY = "strftime(epoch_ms({}), '%Y-%m-%d')"


@frozen_dataclass
class RawTable:
    """A table of the lake.

    `rows` selects `cluster`, `day` and the columns of a file from a store; if `by_stamp`, only rows of
    $cluster and of the day [$from_ms, $to_ms), and only after a load that touches the day. `load` inserts the
    rows of one cluster from the view lake_rows. `day` describes a row's day.
    """

    name: str
    day: str
    rows: str
    load: str
    order: str
    by_stamp: bool = False


def _plain(name: str, day: str, at: str, order: str, cluster: str = "cluster") -> RawTable:
    """A table written unchanged, whose rows name their cluster (otherwise NULL)."""
    exclude = "* EXCLUDE (cluster)" if cluster == "cluster" else "*"
    rows = f"SELECT {cluster} AS cluster, {at} AS day, {exclude} FROM {name}"  # noqa: S608 - names of our own
    entered = "SELECT $cluster::VARCHAR AS cluster, *" if cluster == "cluster" else "SELECT DISTINCT *"
    return RawTable(name, day, rows, f"INSERT INTO {name} BY NAME {entered} FROM lake_rows", order)


# Queries of a source concern all of its clusters.
_SOURCES = "(SELECT DISTINCT source, cluster FROM series UNION SELECT DISTINCT source, source FROM loads WHERE kind = 'slurm')"


def _of_sources(name: str, keys: str) -> RawTable:
    """A table of hours by source: written for each of the source's clusters, loaded once."""
    return RawTable(
        name,
        "its hour's",
        f"SELECT s.cluster, {_DAY.format('t.hour::BIGINT * 3600000')} AS day, t.* "  # noqa: S608 - names of our own
        f"FROM {name} AS t JOIN {_SOURCES} AS s USING (source)",
        f"INSERT INTO {name} BY NAME FROM lake_rows ANTI JOIN {name} USING ({keys})",
        keys,
    )


# Identifies a load in every store.
_LOAD_KEY = "hash(l.kind, l.source, l.from_ms, l.to_ms, l.loaded_at)"
# Joins runs of equal values in cut_states that were cut at midnight.
STITCHED = """pieces AS (
    SELECT *, first_ms % 86400000 = 0 AND coalesce(max(last_ms) OVER w = first_ms, false) AS goes_on
    FROM cut_states
    WINDOW w AS (PARTITION BY series_id, value ORDER BY first_ms ROWS BETWEEN 1 PRECEDING AND 1 PRECEDING)
),
numbered AS (
    SELECT *, sum((NOT goes_on)::INTEGER) OVER (PARTITION BY series_id, value ORDER BY first_ms) AS number FROM pieces
)
SELECT series_id, value, min(first_ms) AS first_ms, max(last_ms) AS last_ms FROM numbered GROUP BY series_id, value, number"""
# Identifies a bill in every store.
_BILL_KEY = "hash(b.provider, b.source, b.format, b.billing_account_id, b.billing_period, b.digest, b.loaded_at, b.bill_id)"

RAW = (
    RawTable(
        "series",
        "the first of each month on which it has samples",
        f"""WITH seen AS (
            SELECT series_id, greatest(first_ms, epoch_ms(month)) AS at_ms, month
            FROM (
                SELECT *, unnest(range(date_trunc('month', epoch_ms(first_ms)), epoch_ms(last_ms + 1), INTERVAL 1 MONTH)) AS month
                FROM states)
            UNION ALL
            SELECT series_id, min(hour)::BIGINT * 3600000, date_trunc('month', epoch_ms(hour::BIGINT * 3600000)) AS month
            FROM blocks GROUP BY series_id, month
        ),
        firsts AS (
            SELECT series_id, min(at_ms) AS at_ms FROM seen GROUP BY series_id, month
        )
        SELECT s.cluster, {_DAY.format("f.at_ms")} AS day, s.key AS series_key, s.source, s.metric, s.labels
        FROM firsts AS f JOIN series AS s USING (series_id)""",  # noqa: S608 - statements of our own
        """INSERT INTO series
        SELECT (SELECT coalesce(max(series_id), 0) FROM series) + row_number() OVER (ORDER BY series_key), series_key, source,
            $cluster, metric, labels
        FROM (SELECT series_key, any_value(source) AS source, any_value(metric) AS metric, any_value(labels) AS labels
            FROM lake_rows GROUP BY series_key)""",
        "series_key",
    ),
    RawTable(
        "states",
        "each day that it touches, cut at midnight UTC",
        """SELECT s.cluster, NULL AS day, s.key AS series_key, t.value, greatest(t.first_ms, $from_ms) AS first_ms,
            least(t.last_ms, $to_ms) AS last_ms
        FROM states AS t JOIN series AS s USING (series_id)
        WHERE s.cluster = $cluster AND t.first_ms < $to_ms AND t.last_ms >= $from_ms""",
        f"""INSERT INTO states
        WITH cut_states AS (
            SELECT s.series_id, r.value, r.first_ms, r.last_ms
            FROM lake_rows AS r JOIN series AS s ON s.key = r.series_key AND s.cluster = $cluster
        ),
        {STITCHED}
        ORDER BY series_id, first_ms""",  # noqa: S608
        "series_key, first_ms",
        by_stamp=True,
    ),
    RawTable(
        "blocks",
        "its hour's",
        """SELECT s.cluster, NULL AS day, s.key AS series_key, b.* EXCLUDE (series_id)
        FROM blocks AS b JOIN series AS s USING (series_id)
        WHERE s.cluster = $cluster AND b.hour >= $from_ms // 3600000 AND b.hour < $to_ms // 3600000""",
        """INSERT INTO blocks BY NAME
        SELECT s.series_id, r.* EXCLUDE (series_key)
        FROM lake_rows AS r JOIN series AS s ON s.key = r.series_key AND s.cluster = $cluster
        ORDER BY s.series_id, r.hour""",
        # by time first: a reader of one hour of a neighboring day then reads little more
        "hour, series_key",
        by_stamp=True,
    ),
    _plain("scrape_gaps", "its hour's", _DAY.format("hour::BIGINT * 3600000"), "source, job, instance, hour"),
    RawTable(
        "loads",
        "each day that its window touches, cut at midnight UTC",
        f"""WITH told AS (
            SELECT s.cluster, {_LOAD_KEY} AS load_key, l.*
            FROM loads AS l LEFT JOIN {_SOURCES} AS s ON s.source = l.source AND l.kind IN ('prometheus', 'slurm')
        ),
        cut AS (
            SELECT *, {MS_PER_DAY} * unnest(
                range(from_ms // {MS_PER_DAY}, greatest(from_ms, to_ms - 1) // {MS_PER_DAY} + 1)) AS day_ms
            FROM told WHERE cluster IS NOT NULL
        )
        SELECT cluster, {_DAY.format("day_ms")} AS day, load_key, kind, source, greatest(from_ms, day_ms) AS from_ms,
            least(to_ms, day_ms + {MS_PER_DAY}) AS to_ms, CASE WHEN from_ms >= day_ms THEN rows ELSE 0 END AS rows,
            CASE WHEN from_ms >= day_ms THEN dropped ELSE 0 END AS dropped, loaded_at
        FROM cut
        UNION ALL
        SELECT NULL, NULL, load_key, kind, source, from_ms, to_ms, rows, dropped, loaded_at FROM told WHERE cluster IS NULL""",  # noqa: S608
        # a load of several clusters is loaded once
        """INSERT INTO loads
        SELECT (SELECT coalesce(max(load_id), 0) FROM loads) + row_number() OVER (ORDER BY min(loaded_at), load_key), 0,
            any_value(kind), any_value(source), min(from_ms), max(to_ms), sum(rows)::BIGINT, sum(dropped)::BIGINT, min(loaded_at)
        FROM lake_rows
        GROUP BY load_key
        HAVING hash(any_value(kind), any_value(source), min(from_ms), max(to_ms), min(loaded_at)) NOT IN (
            SELECT hash(kind, source, from_ms, to_ms, loaded_at) FROM loads)""",
        "load_key, from_ms",
    ),
    _of_sources("asked_hours", "source, hour"),
    _of_sources("dropped_samples", "source, metric, hour, reason"),
    _plain("slurm_runs", "its submission's", _DAY.format("submit_ms"), "job_id, submit_ms"),
    _plain("slurm_steps", "its start's", _DAY.format("start_ms"), "job_id, step, start_ms"),
    _plain(
        "slurm_devices", "its job's submission's", _DAY.format("submit_ms"), "job_id, submit_ms, node, type"
    ),
    _plain("slurm_nodes", "when it was described", _DAY.format("seen_ms"), "node, seen_ms"),
    _plain("slurm_events", "its start's", _DAY.format("from_ms"), "node, from_ms"),
    _plain("slurm_reservations", "its start's", _DAY.format("from_ms"), "name, from_ms"),
    _plain("slurm_accounts", "none", "NULL", "account"),
    _plain("slurm_shares", "when it was reported", _DAY.format("seen_ms"), 'account, "user", seen_ms'),
    RawTable(
        "progress_series",
        "none",
        """SELECT nullif(cluster, '') AS cluster, NULL AS day, key AS series_key, * EXCLUDE (series_id, key, cluster)
        FROM progress_series""",
        """INSERT INTO progress_series BY NAME
        SELECT (SELECT coalesce(max(series_id), 0) FROM progress_series) + row_number() OVER (ORDER BY series_key) AS series_id,
            series_key AS key, $cluster::VARCHAR AS cluster,
            COLUMNS(lambda name: name NOT IN ('series_key', 'gateway', 'team', 'provider', 'api_base', 'currency'))
        FROM lake_rows AS r
        -- files of before schema 22 have series of gateways
        WHERE series_key NOT IN (SELECT key FROM progress_series) AND to_json(r)->>'gateway' IS NULL""",
        "series_key",
    ),
    RawTable(
        "progress_values",
        "its moment's",
        f"""SELECT nullif(s.cluster, '') AS cluster, {_DAY.format("v.at_ms")} AS day, s.key AS series_key, v.at_ms, v.value
        FROM progress_values AS v JOIN progress_series AS s USING (series_id)""",  # noqa: S608
        """INSERT INTO progress_values BY NAME
        SELECT s.series_id, r.at_ms, r.value
        FROM lake_rows AS r JOIN progress_series AS s ON s.key = r.series_key AND s.cluster IS NOT DISTINCT FROM $cluster
        ANTI JOIN progress_values AS v ON v.series_id = s.series_id AND v.at_ms = r.at_ms
        ORDER BY s.series_id, r.at_ms""",
        "series_key, at_ms",
    ),
    RawTable(
        "progress_runs",
        "its start's",
        f"SELECT nullif(cluster, '') AS cluster, {_DAY.format('started_ms')} AS day, * EXCLUDE (cluster) FROM progress_runs",  # noqa: S608
        """INSERT INTO progress_runs BY NAME
        SELECT $cluster::VARCHAR AS cluster, * FROM lake_rows ANTI JOIN progress_runs USING (source, run_id)""",
        "source, run_id",
    ),
    RawTable(
        "bills",
        "the first of its billing period",
        f"""SELECT NULL AS cluster, b.billing_period || '-01' AS day, {_BILL_KEY} AS bill_key, {_LOAD_KEY} AS load_key,
            b.* EXCLUDE (bill_id, load_id)
        FROM bills AS b LEFT JOIN loads AS l ON l.load_id = b.load_id""",  # noqa: S608
        """CREATE TEMP TABLE lake_bills AS
        SELECT bill_key, row_number() OVER (ORDER BY loaded_at, bill_key) AS bill_id FROM lake_rows;
        INSERT INTO bills BY NAME
        SELECT n.bill_id, r.* EXCLUDE (bill_key, load_key), coalesce(k.load_id, 0) AS load_id
        FROM lake_rows AS r JOIN lake_bills AS n USING (bill_key)
        LEFT JOIN (SELECT load_id, hash(kind, source, from_ms, to_ms, loaded_at) AS load_key FROM loads) AS k USING (load_key)""",
        "bill_key",
    ),
    RawTable(
        "bill_rows",
        "the first of its billing period",
        f"""SELECT NULL AS cluster, b.billing_period || '-01' AS day, {_BILL_KEY} AS bill_key, r.* EXCLUDE (bill_id)
        FROM bill_rows AS r JOIN bills AS b USING (bill_id)""",  # noqa: S608
        # as in the store since its migration 14: varying columns per row, and shared columns once
        """CREATE TEMP TABLE lake_bill_rows AS
        SELECT 1 AS batch_id, hash(*COLUMNS(* EXCLUDE (
            charge_key, charge_period_start, charge_period_end, billed_cost, effective_cost, list_cost, contracted_cost,
            pricing_quantity, consumed_quantity, instance_hours, split_cost, source_row, line_item_id, row_digest,
            list_unit_price, contracted_unit_price, commitment_discount_quantity, upfront_share))) AS detail_id, *
        FROM (SELECT n.bill_id, r.* EXCLUDE (bill_key) FROM lake_rows AS r JOIN lake_bills AS n USING (bill_key));
        INSERT INTO bill_lines BY NAME
        SELECT batch_id, detail_id, charge_key, charge_period_start, charge_period_end, billed_cost, effective_cost, list_cost,
            contracted_cost, pricing_quantity, consumed_quantity, instance_hours, split_cost, source_row, line_item_id,
            row_digest, list_unit_price, contracted_unit_price, commitment_discount_quantity, upfront_share
        FROM lake_bill_rows ORDER BY bill_id, source_row;
        INSERT INTO bill_details BY NAME
        SELECT DISTINCT * EXCLUDE (
            charge_key, charge_period_start, charge_period_end, billed_cost, effective_cost, list_cost, contracted_cost,
            pricing_quantity, consumed_quantity, instance_hours, split_cost, source_row, line_item_id, row_digest,
            list_unit_price, contracted_unit_price, commitment_discount_quantity, upfront_share)
        FROM lake_bill_rows;
        DROP TABLE lake_bill_rows""",
        "bill_key, source_row",
    ),
    _plain("list_prices", "when it was queried", "price_as_of::VARCHAR", "ALL", "NULL"),
    _plain("component_prices", "when it was queried", "price_as_of::VARCHAR", "ALL", "NULL"),
    _plain("instance_types", "when it was queried", "seen_on::VARCHAR", "provider, instance_type", "NULL"),
    _plain("spot_prices", "when it began", _DAY.format("at_ms"), "ALL", "NULL"),
    _plain("spot_eviction_rates", "its day", "seen_on::VARCHAR", "ALL", "NULL"),
)
BY_NAME = {table.name: table for table in RAW}


_TWICE = """
SELECT any_value(source), billing_period FROM lake_rows
GROUP BY provider, source, billing_account_id, billing_period HAVING count(*) > 1 LIMIT 1"""


def enter(
    con: DuckDBPyConnection,
    table: RawTable,
    cluster: str | None,
    files: LakeFiles,
    folder: Path,
    found: Iterable[LakeFile],
) -> None:
    """Insert the rows of files, all of one cluster or of none, into the table.

    Creates the view lake_rows. Raises StoreError for a bill that two writers wrote into the lake.
    """
    if not view_rows(con, files, folder, found):
        return
    if table.name == "bills" and (twice := con.execute(_TWICE).fetchone()):
        raise StoreError(
            f"two writers have the bill {twice[0]} of {twice[1]} in {files.label()}",
            "gpucost lake info names the writers: let only one of them load this bill",
        )
    for statement in table.load.split(";\n"):
        con.execute(statement, {"cluster": cluster} if "$cluster" in statement else None)


def view_rows(con: DuckDBPyConnection, files: LakeFiles, folder: Path, found: Iterable[LakeFile]) -> bool:
    """Create the view lake_rows of these files; False without files."""
    rows = parquet(files, folder, found)
    if rows:
        con.execute(f"CREATE OR REPLACE TEMP VIEW lake_rows AS {rows}")
    return bool(rows)


def parquet(files: LakeFiles, folder: Path, found: Iterable[LakeFile]) -> str:
    """A statement that reads these files, fetched into `folder` from a bucket; '' without files."""
    paths = files.each(lambda file: quoted(str(files.local(file, folder))), found)
    joined = ", ".join(paths)
    return f"FROM read_parquet([{joined}], hive_partitioning = false, union_by_name = true)" if paths else ""


def quoted(text: str) -> str:
    """A string literal of SQL."""
    return "'" + text.replace("'", "''") + "'"
