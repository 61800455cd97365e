"""`gpucost collect aws`: AWS billing exports into the table of charges."""

from __future__ import annotations

from enum import StrEnum
from typing import TYPE_CHECKING, Annotated

from gpucost.cli.bill_runs import azure_queries, bigquery, gcp_queries, months_asked, run_bills
from gpucost.cli.command import Call, command
from gpucost.errors import UsageError
from gpucost.options import Names, Option, argument

if TYPE_CHECKING:
    pass

MonthsOption = Annotated[
    Names,
    Option(
        "Billing period to ask for; repeatable; else the last and the current one.", "YYYY-MM", flag="--month"
    ),
]
PathsArgument = Annotated[
    Names,
    argument("[PATH]...", "Files, directories, or addresses of a bucket; else `exports` of the config."),
]
ForceOption = Annotated[
    bool,
    Option(
        "Put what is loaded in the place of the bill there, also if it is older, less, or another view.",
        flag="--replace",
        also="--force",
    ),
]


@command()
def collect_aws(call: Call, paths: PathsArgument = (), force: ForceOption = False) -> None:
    """Load AWS billing exports: Cost and Usage Reports (legacy and CUR 2.0), Data Exports, FOCUS.

    CSV and Parquet, packed or not, from files, directories or s3://bucket/prefix. Where a manifest is there, it decides
    which files count, and a billing period is replaced as a whole; half a period is refused. A loose file replaces the bill
    whose charges it holds: loading twice, a restated month, or a final month over one that was not, changes what is there
    and doubles nothing. A file that is older or less than what is there is named and left out. What is in the store is
    asked by `gpucost sql "from charges"`.

    \b
    Examples:
      gpucost collect aws s3://my-bucket/exports/cur
      gpucost collect aws march.csv.gz april.csv.gz
      gpucost collect aws --replace 2026-10-not-final.csv
    """
    run_bills(call, "aws", paths, force=force)


class CostType(StrEnum):
    """What the query API is asked for."""

    amortized = "amortized"
    actual = "actual"


@command()
def collect_azure(
    call: Call,
    paths: PathsArgument = (),
    month: MonthsOption = (),
    cost_type: Annotated[
        CostType, Option("Costs to ask the query API for; of exports, their content tells.", is_shown=True)
    ] = CostType.amortized,
    force: ForceOption = False,
) -> None:
    """Load Azure cost exports, or ask the Cost Management query API where there is none.

    Exports of any agreement (Enterprise, Microsoft Customer, pay-as-you-go) and language, CSV or Parquet, packed or not, from
    files, directories or https://<account>.blob.core.windows.net/<container>/<directory>. Amortized and actual exports of one
    month go together and are never added: amortized costs are the effective ones, actual costs add what was paid for
    commitments. Without paths and exports, azure.cost_scope is asked for, a month at a time.

    \b
    Examples:
      gpucost collect azure exports/amortized exports/actual
      gpucost collect azure https://billing.blob.core.windows.net/exports/amortized
      gpucost collect azure --month 2026-10
    """

    run_bills(call, "azure", paths, force=force, others=lambda: azure_queries(call, month, cost_type))


@command()
def collect_gcp(
    call: Call,
    paths: PathsArgument = (),
    month: MonthsOption = (),
    max_gib: Annotated[
        float | None, Option("GiB that a month's query may read; else gcp.max_gib.", "NUMBER", above=True)
    ] = None,
    estimate: Annotated[bool, Option("Only tell what the queries would read.")] = False,
    force: ForceOption = False,
) -> None:
    """Load Google Cloud's detailed usage cost export, from BigQuery or from files.

    From BigQuery (gcp.billing_table), an invoice month is read whole, corrections included: what the query reads is estimated
    and told before it runs, and a query over the cap is refused. From files or gs://bucket/prefix: CSV, JSON lines, Parquet,
    packed or not, flattened or nested; all files of a month go together. Loading again replaces and doubles nothing.

    \b
    Examples:
      gpucost collect gcp
      gpucost collect gcp --month 2026-10 --estimate
      gpucost collect gcp exports/2026-10/*.json.gz
      gpucost collect gcp gs://my-bucket/billing
    """
    if estimate:
        if not call.settings.gcp.billing_table:
            raise UsageError("no table to estimate for", "set gcp.billing_table in gpucost.toml")
        for name in months_asked(month, call.now):
            bigquery(call, name, max_gib).estimate()
        return

    run_bills(call, "gcp", paths, force=force, others=lambda: gcp_queries(call, month, max_gib))


@command()
def collect_focus(call: Call, paths: PathsArgument = (), force: ForceOption = False) -> None:
    """Load FOCUS cost and usage files, 1.0 to 1.4, of any provider; OCI's cost reports; and OpenAI's and Anthropic's costs.

    CSV and Parquet, packed or not, columns spelled as in the specification or in snake case, and saved answers of the cost APIs
    of OpenAI and Anthropic, from files, directories or s3://bucket/prefix. Costs are the file's own. A file replaces the bill
    whose charges it holds; one that is older or less than what is there is named and left out, and the command ends with 1
    where the file itself was named.

    \b
    Examples:
      gpucost collect focus focus-2026-10.csv
      gpucost collect focus exports/focus/
      gpucost collect focus s3://my-bucket/focus
      gpucost collect focus openai-costs.json anthropic-cost-report.json
    """
    run_bills(call, None, paths, force=force)
