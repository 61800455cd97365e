"""Google Cloud's detailed usage cost export, and the standard one without machines, in BigQuery or as files.

Rows of an invoice month are appended until it is closed and corrected afterwards, in the partition of the day
they are written. So a month is always read as a whole, from the partition of its first day to the newest.
Sources: Cloud Billing documentation, "Structure of Detailed data export" (2026); BigQuery REST API v2.
"""

from __future__ import annotations

import re
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpucost.clouds import google_in_words, google_login
from gpucost.collect.bill.formats import Format
from gpucost.collect.bill.opening import MonthTree
from gpucost.errors import ConfigError, SourceError
from gpucost.objects import Entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from contextlib import AbstractContextManager
    from pathlib import Path

    from google.cloud.bigquery import Client, Table

# Flattened files have a column per field of a record ('service.id'), nested ones the record ('service').
_RECORDS = {
    "service": "id description",
    "sku": "id description",
    "project": "id name",
    "location": "region zone",
    "usage": "amount unit amount_in_pricing_units pricing_unit",
    "invoice": "month",
    "adjustment_info": "type",
    "resource": "name global_name",
    "subscription": "instance_id",
    "consumption_model": "description",
    "price": "list_price effective_price_default pricing_unit_quantity",
}
_PLAIN = """
    billing_account_id usage_start_time usage_end_time cost cost_at_list cost_at_effective_price_default currency
    cost_type credits labels system_labels
"""
_WHOLE = (*_PLAIN.split(), *_RECORDS)
_NUMBERS = """
    cost cost_at_list cost_at_effective_price_default usage_amount usage_amount_in_pricing_units price_list_price
    price_effective_price_default price_pricing_unit_quantity
"""
_COLUMNS = [*_WHOLE, *(f"{record}_{name}" for record, names in _RECORDS.items() for name in names.split())]


def _format(named: str) -> Format:
    return Format(
        "gcp",
        "a Google Cloud usage cost export",
        "gcp",
        dict.fromkeys(_COLUMNS, ()),
        f"billing_account_id usage_start_time usage_end_time cost credits {named}",
        "gcp_1_rows gcp_2_shares gcp_3_mapped",
        catalog=True,
        times=("usage_start_time", "usage_end_time", None, None),
        numbers=_NUMBERS,
    )


FORMATS = (_format("service invoice"), _format("service_description invoice_month"))


def _in_words(what: str) -> AbstractContextManager[None]:
    return google_in_words(
        what,
        "try again later; none of it was loaded",
        ("", "grant roles/bigquery.dataViewer and roles/bigquery.jobUser"),
    )


_TABLE = re.compile(r"^[a-z][a-z0-9.:-]{4,}\.[A-Za-z0-9_]+\.[A-Za-z0-9_-]+$")
_GIB = 1 << 30
# On-demand price of the US multi-region since July 2023 (cloud.google.com/bigquery/pricing), named in the
# estimate.
_USD_PER_TIB = 6.25
# BigQuery's dialect: one JSON text per row of an invoice month. All partitions up to now, because corrections
# come later.
_MONTH = """SELECT TO_JSON_STRING(STRUCT(columns)) AS line
FROM `project.dataset.table`
WHERE invoice.month = @month AND partition_column >= @since"""


@dataclass(eq=False)
class BigQueryTree(MonthTree):
    """One file of JSON lines per invoice month ('2026-10'), queried when fetched.

    `max_gib` limits the data that a month's query reads: it is estimated before, and BigQuery enforces it.
    `show_progress` receives the estimate.
    """

    table: str
    month: str
    max_gib: float
    show_progress: Callable[[str], None]
    project: str | None = None
    endpoint: str | None = None

    def __post_init__(self) -> None:
        if self.table.count(".") < 2:
            self.table = self.table.replace(":", ".", 1)
        if not _TABLE.match(self.table):
            raise ConfigError(
                f"invalid BigQuery table: {self.table}",
                "set gcp.billing_table to project.dataset.gcp_billing_export_resource_v1_…",
            )
        self.name = f"bigquery://{self.table}"

    def entries(self) -> list[Entry]:
        table = self._opened[1]
        # The table as of now: an answer at another time is another file.
        state = f"{table.modified}:{table.num_rows}"
        return [Entry(self.key, 0, f"{self.table}:{self.key}:{state}")]

    def estimate(self) -> int:
        """Bytes that the query would read. Raises SourceError above the limit."""
        size = int(self._query(dry_run=True).total_bytes_processed or 0)
        self.show_progress(
            f"{self.name}: {self.month}: the query reads {size / _GIB:,.2f} GiB, about ${size / (1 << 40) * _USD_PER_TIB:,.2f} "
            f"at ${_USD_PER_TIB} per TiB"
        )
        if size > self.max_gib * _GIB:
            raise SourceError(
                f"{self.name}: {self.month} would read {size / _GIB:,.1f} GiB, more than the limit of {self.max_gib:g} GiB; "
                "no data was read",
                f"raise the limit: gpucost collect gcp --max-gib {int(size / _GIB) + 1}, or gcp.max_gib in gpucost.toml",
            )
        return size

    def fetch(self, entry: Entry, directory: Path) -> Path:
        self.estimate()
        job = self._query(maximum_bytes_billed=max(int(self.max_gib * _GIB), 1))
        target = directory / entry.key
        with _in_words(self.name), target.open("w", encoding="utf-8") as out:
            written = sum(out.write(f"{row[0]}\n") for row in job.result(page_size=50_000, timeout=600.0))
        if not written:
            raise SourceError(
                f"{self.name} has no rows of invoice month {self.month}",
                "an export has the months since it was enabled, and the previous month",
            )
        return target

    @cached_property
    def _opened(self) -> tuple[Client, Table]:
        with _in_words(self.name):
            who, project = google_login(self.endpoint, self.project)
            from google.cloud import bigquery

            client = bigquery.Client(
                project=project or self.table.split(".")[0],
                credentials=who,
                client_options={"api_endpoint": self.endpoint} if self.endpoint else None,
            )
            table = client.get_table(self.table, timeout=60)
        there = {field.name for field in table.schema}
        if lacking := {"billing_account_id", "usage_start_time", "cost", "invoice", "sku"} - there:
            raise SourceError(
                f"{self.name} is not a usage cost export: it lacks the columns {', '.join(sorted(lacking))}",
                "set billing_table in [gcp] to the table gcp_billing_export_resource_v1_…",
            )
        return client, table

    def _query(self, **options: Any) -> Any:
        """The query job of the month."""
        client, table = self._opened
        from google.cloud.bigquery import QueryJobConfig, ScalarQueryParameter

        kinds = {field.name: field.field_type for field in table.schema}
        # Select only our columns, because newer tables have more; older ones lack some.
        columns = ", ".join(name for name in _WHOLE if name in kinds)
        text = _MONTH.replace("project.dataset.table", self.table).replace("(columns)", f"({columns})")
        parameters = [ScalarQueryParameter("month", "STRING", self.month.replace("-", ""))]
        column = _partition_column(table)
        if column is None:
            text = text.replace(" AND partition_column >= @since", "")
        else:
            first = datetime.strptime(self.month, "%Y-%m").replace(tzinfo=UTC)
            is_date = kinds.get(column) == "DATE"
            since = ("DATE", first.date()) if is_date else ("TIMESTAMP", first)
            parameters.append(ScalarQueryParameter("since", *since))
        config = QueryJobConfig(query_parameters=parameters, use_query_cache=False, **options)
        with _in_words(self.name):
            return client.query(text.replace("partition_column", column or ""), job_config=config, timeout=60)


def _partition_column(table: Table) -> str | None:
    """The column of the day a row was written, for pruning; None if partitions use something else."""
    parts = table.time_partitioning
    field = parts and (parts.field or "_PARTITIONTIME")
    # With partitions by usage, a correction is in the partition of the corrected day, however old: read all
    # partitions.
    of_writing = ("export_time", "partition_date", "_PARTITIONTIME", "ingestion_time")
    return field if field in of_writing else None
