"""What kinds of billing export there are, and which one a file is: by its columns, never by its name."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from functools import cache
from importlib.resources import files
from operator import itemgetter

from gpucost import engine
from gpucost.errors import DataError
from gpucost.records import record

PACKAGE = "gpucost.collect.bill"


# Whose a FOCUS row is, as `charges.provider` has it: the first name that is there decides.
FOCUS_PROVIDER = """CREATE OR REPLACE TEMP MACRO focus_provider(service_provider, provider, publisher, issuer) AS
    CASE WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^(aws|amazon)', 'i') THEN 'aws'
         WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^(google|gcp$)', 'i') THEN 'gcp'
         WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^(microsoft|azure)', 'i') THEN 'azure'
         WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^oracle', 'i') THEN 'oci'
         ELSE lower(coalesce(service_provider, provider, publisher, issuer))
    END"""


class NotThis(DataError):
    """A file that this command does not take: unknown, another provider's, or none that holds charges."""


# Providers with a `gpucost collect` command of their own.
CLOUDS = ("aws", "gcp", "azure")

# The maps that columns of a file can be entries of, as the SQL names them.
MAPS = ("tag_columns", "cost_category_columns")


@record
class Format:
    """A kind of export: the columns that its SQL reads, and how a file of it is known.

    `provider` is '' where rows say whose they are. `columns` maps the name that the SQL uses to other spellings of it; how a
    name is cased and parted never matters. `required` are the columns that make a file one of this kind. `sql` are files of
    this package without their ending: run in order, the last one makes the view `mapped`. Both are texts with blanks between
    names. `has_findings`: the last statement, run when the charges are written, answers level, code, message, fix.
    `entry` gives the map (one of MAPS) and the key of a column that is an entry of one, None for any other column.
    `line_item` are the columns that name a line item, its id first: where a file has that, `row_digest` tells its rows apart.
    `catalog`: the SQL reads the catalog's tables. Every format's SQL may read the variable `currency`, that of rows that name
    none; null where none is set. `times` are the columns of a charge's start and end, and of its billing period's, None without;
    `numbers` those that hold numbers.
    """

    name: str
    title: str
    provider: str
    columns: Mapping[str, Sequence[str]]
    required: str
    sql: str
    has_findings: bool = True
    entry: Callable[[str], tuple[str, str] | None] = lambda _: None
    line_item: tuple[str, ...] = ()
    catalog: bool = False
    times: Sequence[str | None] = (None,) * 4
    numbers: str = ""

    @property
    def command(self) -> str:
        """The `gpucost collect` command that takes it, whatever other one does."""
        return self.provider if self.provider in CLOUDS else "focus"

    @property
    def rules_digest(self) -> str:
        """What the mapping is: bills read by other rules are read again."""
        import hashlib

        readers = (
            engine.text("gpucost.store", f"sql/{name}")
            for name in ("bill_macros", "bill_time_ways", "bill_number_ways")
        )
        return hashlib.sha256(
            "\n".join([FOCUS_PROVIDER, *readers, *map(sql_text, self.sql.split())]).encode()
        ).hexdigest()


@cache
def sql_text(name: str) -> str:
    """The text of `<name>.sql` of this package."""
    return (files(PACKAGE) / f"{name}.sql").read_text(encoding="utf-8")


def squeeze(name: str) -> str:
    """A column's name without case and separators: `lineItem/UsageStartDate` and `line_item_usage_start_date` are one.

    Azure translates names and puts its own behind: `Abonnement-GUID (SubscriptionGuid)` is `SubscriptionGuid`.
    """
    if own := re.fullmatch(r".+\(([A-Za-z0-9_ ]+)\)\s*", name):
        name = own.group(1)
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", name).casefold())


def spelled(names: str, spellings: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """The columns of a format: `names` with blanks between them, some with other `spellings`."""
    return {name: spellings.get(name, "").split() for name in names.split()}


def all_formats() -> tuple[Format, ...]:
    """Every format, the more particular first."""
    from gpucost.collect.bill import anthropic, aws, azure, focus, gcp, oci, openai

    vendors = (*openai.FORMATS, *anthropic.FORMATS)
    return (*aws.FORMATS, *gcp.FORMATS, *oci.FORMATS, *vendors, *focus.FORMATS, *azure.FORMATS)


def recognize(header: Sequence[str], name: str) -> Format:
    """The format whose required columns are all in `header`. Raises NotThis, saying what the file seems to be."""
    there = {squeeze(column) for column in header}
    for known in all_formats():
        if not _lacking(known, there):
            return known
    for columns, what, fix in _NO_BILLS:
        if there.issuperset(map(squeeze, columns.split())):
            raise NotThis(f"{name} is {what}", fix)
    raise NotThis(f"{name} is no billing export that gpucost knows: {_nearest(there)}", _EXPECTED)


def locate(
    known: Format, header: Sequence[str], name: str
) -> tuple[dict[str, int | None], dict[str, dict[str, int]]]:
    """Where the columns of a format stand in `header`, None where it lacks one, and the entries of MAPS.

    Raises DataError where two columns mean the same one.
    """
    at: dict[str, list[int]] = {}
    maps: dict[str, dict[str, int]] = {name: {} for name in MAPS}
    for position, column in enumerate(header):
        if (entry := known.entry(column)) is not None:
            maps[entry[0]].setdefault(entry[1], position)
        else:
            at.setdefault(squeeze(column), []).append(position)
    positions: dict[str, int | None] = {}
    for column in known.columns:
        # The first spelling that is there: the name itself, then the others in their order.
        spelled = next((at[word] for word in _spellings(known, column) if word in at), [])
        if exact := [position for position in spelled if header[position] == column]:
            spelled = exact[:1]
        if len(spelled) > 1:
            twice = " and ".join(header[position] for position in spelled)
            raise DataError(
                f"{name}: two columns mean {column}: {twice}", "remove one of them from the export"
            )
        positions[column] = spelled[0] if spelled else None
    return positions, maps


_COST_AND_USAGE = "give the FOCUS cost and usage file: the one with BilledCost and EffectiveCost"

# Files that lie beside exports and hold no charges, the more particular first: the columns that tell them, what they are, a fix.
_NO_BILLS = (
    (
        "ResultsByTime",
        "an answer of the AWS Cost Explorer API: sums, not charges",
        "give the Cost and Usage Report: create a Data Export (CUR 2.0) in the AWS Billing console",
    ),
    ("SpotPriceHistory", "an answer of the EC2 API with spot prices, not a bill", "gpucost collect spot"),
    ("PriceList FormatVersion", "an answer of the AWS price list API, not a bill", "gpucost collect prices"),
    ("files manifest run_id", "the manifest of a FOCUS data set, not its charges", _COST_AND_USAGE),
    (
        "ContractCommitmentId ContractCommitmentCost",
        "a FOCUS contract commitment file: what was agreed, not what was charged",
        _COST_AND_USAGE,
    ),
    (
        "InvoiceDetailId InvoiceDetailGrain",
        "a FOCUS invoice detail file: sums of charges, not the charges",
        _COST_AND_USAGE,
    ),
    (
        "BillingPeriodStatus BillingPeriodCreated",
        "a FOCUS billing period file: it says which periods are closed, and holds no charges",
        _COST_AND_USAGE,
    ),
    (
        "RecordType LinkedAccountId UsageType ProductCode",
        "an AWS detailed billing report, which AWS replaced by the Cost and Usage Report in 2019",
        "create a Data Export (CUR 2.0) in the AWS Billing console and give its files",
    ),
    (
        "num_model_requests input_tokens",
        "OpenAI's usage: tokens, not what they cost",
        "give the costs: answers of /v1/organization/costs by line item and project, or the dashboard's cost export",
    ),
    (
        "uncached_input_tokens output_tokens",
        "Anthropic's usage: tokens, not what they cost",
        "give the costs: answers of /v1/organizations/cost_report by description and workspace",
    ),
    (
        "usage_date_utc usage_output_tokens",
        "Anthropic's usage: tokens, not what they cost",
        "give the costs: the CSV of the Console's cost page",
    ),
    ("skus", "an answer of the Google Cloud price list API, not a bill", "gpucost collect prices"),
    (
        "report_period_start interval_start",
        "OpenShift usage of the cost management operator: usage, not charges",
        "give the cloud's own billing export; usage comes from Prometheus: gpucost collect prometheus",
    ),
    (
        "Timestamp UsageType Operation InstanceID MyBidID",
        "a spot instance data feed: prices of spot instances, not a bill",
        "gpucost collect spot",
    ),
)

_EXPECTED = (
    "expected an AWS Cost and Usage Report (legacy CUR or CUR 2.0), a Google Cloud detailed usage cost export, an Azure cost "
    "export, an OCI cost report, OpenAI's or Anthropic's costs, or a FOCUS 1.0 to 1.4 cost and usage file; see docs/billing.md"
)


def _spellings(known: Format, column: str) -> list[str]:
    return [squeeze(spelling) for spelling in (column, *known.columns[column])]


def _lacking(known: Format, there: set[str]) -> list[str]:
    return [column for column in known.required.split() if there.isdisjoint(_spellings(known, column))]


def _nearest(there: set[str]) -> str:
    """How close the columns come to a format: what is missing from the one that shares most."""
    lacking = [(known, _lacking(known, there)) for known in all_formats()]
    shares = [(len(missing) / len(known.required.split()), known, missing) for known, missing in lacking]
    share, best, missing = min(shares, key=itemgetter(0))
    if share > 0.6:
        return "its columns are unlike any of them"
    return f"it is like {best.title}, but has no column {', '.join(missing)}"
