"""The usage cost export where Google writes it: a table in BigQuery, one query per invoice month.

Rows of an invoice month are appended until it is closed and corrected afterwards, to the partition of the day they are written:
a month is always read whole, from the partition of its first day to the newest.
Sources: BigQuery REST API v2; Cloud Billing documentation, "Structure of Detailed data export".
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from datetime import UTC, date, datetime, time
from typing import TYPE_CHECKING, Any

from gpucost.collect.bill.gcp import PLAIN, RECORDS
from gpucost.collect.bill.gcp_google import in_words, login
from gpucost.collect.bill.manifest import Manifest
from gpucost.collect.bill.opening import Entry, Tree
from gpucost.errors import ConfigError, SourceError

if TYPE_CHECKING:
    from pathlib import Path

    from google.cloud.bigquery import Client, QueryJobConfig, Table

_TABLE = re.compile(r"^[a-z][a-z0-9.:-]{4,}\.[A-Za-z0-9_]+\.[A-Za-z0-9_-]+$")
_GIB = 1 << 30
# On-demand price of the US multi-region since July 2023 (cloud.google.com/bigquery/pricing); the estimate says so.
_USD_PER_TIB = 6.25
_PAGE_ROWS = 50_000
# In BigQuery's dialect: a JSON text per row of an invoice month. Corrections come in later partitions: all up to now are read.
_MONTH = """SELECT TO_JSON_STRING(STRUCT(columns)) AS line
FROM `project.dataset.table`
WHERE invoice.month = @month AND partition_column >= @since"""
_MOST_SECONDS = 600.0


class BigQueryTree(Tree):
    """One file of JSON lines per invoice month ('2026-10'), queried when it is fetched.

    `max_gib` caps what a month's query may read: it is estimated before, and BigQuery itself refuses to go beyond. `tell`
    hears the estimate. `only_estimate`: nothing is read.
    """

    def __init__(
        self,
        table: str,
        months: Sequence[str],
        *,
        max_gib: float,
        tell: Callable[[str], None],
        project: str | None = None,
        endpoint: str | None = None,
    ) -> None:
        table = table.replace(":", ".", 1) if table.count(".") < 2 else table
        if not _TABLE.match(table):
            raise ConfigError(
                f"{table} is no BigQuery table", "gcp.billing_table should read project.dataset.gcp_billing_export_resource_v1_…"
            )
        self.name = f"bigquery://{table}"
        self._table_name = table
        self._months = months
        self._max_bytes = int(max_gib * _GIB)
        self._max_gib = max_gib
        self._tell = tell
        self._project = project
        self._endpoint = endpoint
        self._opened: tuple[Client, Table] | None = None

    def entries(self) -> list[Entry]:
        _, table = self._open()
        # The table as it is now: an answer of another moment is another file.
        state = f"{table.modified}:{table.num_rows}"
        return [Entry(f"{month}.jsonl", 0, f"{self._table_name}:{month}:{state}") for month in self._months]

    def manifests(self) -> list[Manifest]:
        return [Manifest(f"{month}.json", self.name, month, (f"{month}.jsonl",)) for month in self._months]

    def estimate(self, month: str) -> int:
        """Bytes that the query of a month would read. Raises SourceError where they are over the cap."""
        from google.cloud.bigquery import QueryJobConfig

        client, _ = self._open()
        with in_words(self.name):
            job = client.query(self._sql(), job_config=self._config(month, QueryJobConfig(dry_run=True)), timeout=60)
        size = int(job.total_bytes_processed or 0)
        self._tell(
            f"{self.name}: {month}: the query reads {size / _GIB:,.2f} GiB, about ${size / (1 << 40) * _USD_PER_TIB:,.2f} "
            f"at ${_USD_PER_TIB} per TiB"
        )
        if size > self._max_bytes:
            raise SourceError(
                f"{self.name}: {month} would read {size / _GIB:,.1f} GiB, more than the cap of {self._max_gib:g} GiB; "
                "nothing was read",
                f"raise the cap: gpucost collect gcp --max-gib {int(size / _GIB) + 1}, or gcp.max_gib in gpucost.toml",
            )
        return size

    def fetch(self, entry: Entry, directory: Path) -> Path:
        from google.cloud.bigquery import QueryJobConfig

        month = entry.key.removesuffix(".jsonl")
        self.estimate(month)
        client, _ = self._open()
        target = directory / entry.key
        config = self._config(month, QueryJobConfig(maximum_bytes_billed=max(self._max_bytes, 1)))
        rows = 0
        with in_words(self.name), target.open("w", encoding="utf-8") as out:
            answer = client.query(self._sql(), job_config=config, timeout=60).result(page_size=_PAGE_ROWS, timeout=_MOST_SECONDS)
            for row in answer:
                out.write(row[0])
                out.write("\n")
                rows += 1
        if not rows:
            raise SourceError(
                f"{self.name} has no rows of invoice month {month}",
                "an export holds months since it was enabled, and the one before",
            )
        return target

    def shown(self, entry: Entry) -> str:
        return f"{self.name}#{entry.key.removesuffix('.jsonl')}"

    def _open(self) -> tuple[Client, Table]:
        if self._opened is None:
            who, project = login(self._endpoint, self._project)
            from google.cloud import bigquery

            with in_words(self.name):
                client = bigquery.Client(
                    project=project or self._table_name.split(".")[0],
                    credentials=who,
                    client_options={"api_endpoint": self._endpoint} if self._endpoint else None,
                )
                table = client.get_table(self._table_name, timeout=60)
            self._opened = client, table
            self._check(table)
        return self._opened

    def _check(self, table: Table) -> None:
        there = {field.name for field in table.schema}
        if lacking := {"billing_account_id", "usage_start_time", "cost", "invoice", "sku"} - there:
            raise SourceError(
                f"{self.name} is no usage cost export: it has no column {', '.join(sorted(lacking))}",
                "name the table gcp_billing_export_resource_v1_… under [gcp]: billing_table",
            )

    def _sql(self) -> str:
        _, table = self._open()
        there = {field.name for field in table.schema}
        # A table that grew columns is asked for ours alone; one that is older lacks some.
        columns = ", ".join(name for name in (*PLAIN, *RECORDS) if name in there)
        text = _MONTH.replace("project.dataset.table", self._table_name).replace("(columns)", f"({columns})")
        column = _partition_column(table)
        if column is None:
            return text.replace(" AND partition_column >= @since", "")
        return text.replace("partition_column", column)

    def _config(self, month: str, config: QueryJobConfig) -> QueryJobConfig:
        from google.cloud.bigquery import ScalarQueryParameter

        first = datetime.combine(date(int(month[:4]), int(month[5:]), 1), time(), tzinfo=UTC)
        parameters: list[Any] = [ScalarQueryParameter("month", "STRING", month.replace("-", ""))]
        column = _partition_column(self._open()[1])
        if column is not None:
            kind = "DATE" if _is_date(self._open()[1]) else "TIMESTAMP"
            parameters.append(ScalarQueryParameter("since", kind, first.date() if kind == "DATE" else first))
        config.query_parameters = parameters
        config.use_query_cache = False
        return config


def _partition_column(table: Table) -> str | None:
    """What tells the day a row was written, which pruning goes by; None where partitions are of something else."""
    parts = table.time_partitioning
    if parts is None:
        return None
    if parts.field is None:
        return "_PARTITIONTIME"
    # By usage, a correction lies in the partition of the day it corrects, however old: all of them are read.
    return parts.field if parts.field in ("export_time", "partition_date", "_PARTITIONTIME", "ingestion_time") else None


def _is_date(table: Table) -> bool:
    field = table.time_partitioning.field if table.time_partitioning else None
    return any(column.name == field and column.field_type == "DATE" for column in table.schema)
