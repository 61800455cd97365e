"""Kinds of billing export, detected by a file's columns, never by its name."""

import hashlib
import re
import unicodedata
from collections.abc import Callable, Mapping, Sequence
from operator import itemgetter

from gpucost import engine
from gpucost.errors import DataError
from gpucost.records import frozen_dataclass

PACKAGE = "gpucost.collect.bill"


# The provider of a FOCUS row, as in `charges.provider`: the first name present decides.
FOCUS_PROVIDER = """CREATE OR REPLACE TEMP MACRO focus_provider(service_provider, provider, publisher, issuer) AS
    CASE WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^(aws|amazon)', 'i') THEN 'aws'
         WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^(google|gcp$)', 'i') THEN 'gcp'
         WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^(microsoft|azure)', 'i') THEN 'azure'
         WHEN regexp_matches(coalesce(service_provider, provider, publisher, issuer), '^oracle', 'i') THEN 'oci'
         ELSE lower(coalesce(service_provider, provider, publisher, issuer))
    END"""


class NotThis(DataError):
    """A file that this command does not take: unknown, another provider's, or without charges."""


# Providers with their own `gpucost collect` command.
CLOUDS = ("aws", "gcp", "azure")

# Map columns whose entries can be columns of a file, by their names in SQL.
MAPS = ("tag_columns", "cost_category_columns")


@frozen_dataclass
class Format:
    """A kind of export: the columns of its SQL, and how its files are detected.

    `provider`: '' if rows name theirs. `columns`: SQL name to alternative spellings; case and separators
    never matter. `required`: columns that identify a file of this kind. `sql`: files of this package without
    ending, run in order; the last one creates the view `mapped`. Both are strings with blanks between names.
    `has_findings`: the last statement, run when the charges are written, returns level, code, message, fix.
    `entry`: the map (one of MAPS) and key of a column that is a map entry, otherwise None. `line_item`: the
    columns that name a line item, its id first; with them, `row_digest` distinguishes rows. `catalog`: the
    SQL reads the catalog's tables. Every format's SQL can read the variable `currency`, for rows without one;
    null if not set. `times`: the columns of a charge's start and end, and of its billing period's, or None.
    `numbers`: columns with numbers.
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
        """The `gpucost collect` command for it, even if others take it, too."""
        return self.provider if self.provider in CLOUDS else "focus"

    @property
    def rules_digest(self) -> str:
        """A digest of the mapping: bills read by other rules are read again."""
        readers = (
            engine.text("gpucost.store", f"sql/{name}")
            for name in ("bill_macros", "bill_time_ways", "bill_number_ways")
        )
        return hashlib.sha256(
            "\n".join([FOCUS_PROVIDER, *readers, *map(sql_text, self.sql.split())]).encode()
        ).hexdigest()


def sql_text(name: str) -> str:
    """The text of `<name>.sql` of this package."""
    return engine.text(PACKAGE, name)


def squeeze(name: str) -> str:
    """A column's name without case and separators: `lineItem/UsageStartDate` equals
    `line_item_usage_start_date`.

    Azure translates names and appends its own: `Abonnement-GUID (SubscriptionGuid)` is `SubscriptionGuid`.
    """
    if original := re.fullmatch(r".+\(([A-Za-z0-9_ ]+)\)\s*", name):
        name = original.group(1)
    return re.sub(r"[\W_]+", "", unicodedata.normalize("NFKC", name).casefold())


def spelled(names: str, spellings: Mapping[str, str]) -> dict[str, Sequence[str]]:
    """The columns of a format: `names` with blanks between them, some with other `spellings`."""
    return {name: spellings.get(name, "").split() for name in names.split()}


def all_formats() -> tuple[Format, ...]:
    """Every format, the most specific first."""
    from gpucost.collect.bill import anthropic, aws, azure, focus, gcp, oci, openai

    vendors = (*openai.FORMATS, *anthropic.FORMATS)
    return (*aws.FORMATS, *gcp.FORMATS, *oci.FORMATS, *vendors, *focus.FORMATS, *azure.FORMATS)


def recognize(header: Sequence[str], name: str) -> Format:
    """The format whose required columns are all in `header`. Raises NotThis with the likely kind of file."""
    there = {squeeze(column) for column in header}
    for form in all_formats():
        if not _lacking(form, there):
            return form
    for columns, what, fix in _NO_BILLS:
        if there.issuperset(map(squeeze, columns.split())):
            raise NotThis(f"{name} is {what}", fix)
    raise NotThis(f"{name} is not a known billing export: {_nearest(there)}", _EXPECTED)


def locate(
    form: Format, header: Sequence[str], name: str
) -> tuple[dict[str, int | None], dict[str, dict[str, int]]]:
    """Positions of a format's columns in `header`, None for missing ones, and the entries of MAPS.

    Raises DataError if two columns have the same meaning.
    """
    at: dict[str, list[int]] = {}
    maps: dict[str, dict[str, int]] = {name: {} for name in MAPS}
    for position, column in enumerate(header):
        if (entry := form.entry(column)) is not None:
            maps[entry[0]].setdefault(entry[1], position)
        else:
            at.setdefault(squeeze(column), []).append(position)
    positions: dict[str, int | None] = {}
    for column in form.columns:
        # The first spelling present: the name itself, then the others in order.
        spelled = next((at[word] for word in _spellings(form, column) if word in at), [])
        if exact := [position for position in spelled if header[position] == column]:
            spelled = exact[:1]
        if len(spelled) > 1:
            twice = " and ".join(header[position] for position in spelled)
            raise DataError(
                f"{name}: two columns mean {column}: {twice}", "remove one of them from the export"
            )
        positions[column] = spelled[0] if spelled else None
    return positions, maps


_COST_AND_USAGE = "load the FOCUS cost and usage file: the one with BilledCost and EffectiveCost"

# Files without charges that are often next to exports, the most specific first: identifying columns, kind,
# fix.
_NO_BILLS = (
    (
        "ResultsByTime",
        "an answer of the AWS Cost Explorer API: sums, not charges",
        "load the Cost and Usage Report: create a Data Export (CUR 2.0) in the AWS Billing console",
    ),
    ("SpotPriceHistory", "an answer of the EC2 API with spot prices, not a bill", "gpucost collect spot"),
    ("PriceList FormatVersion", "an answer of the AWS price list API, not a bill", "gpucost collect prices"),
    ("files manifest run_id", "the manifest of a FOCUS data set, not its charges", _COST_AND_USAGE),
    (
        "ContractCommitmentId ContractCommitmentCost",
        "a FOCUS contract commitment file: agreements, not charges",
        _COST_AND_USAGE,
    ),
    (
        "InvoiceDetailId InvoiceDetailGrain",
        "a FOCUS invoice detail file: sums of charges, not the charges",
        _COST_AND_USAGE,
    ),
    (
        "BillingPeriodStatus BillingPeriodCreated",
        "a FOCUS billing period file: states of billing periods, not charges",
        _COST_AND_USAGE,
    ),
    (
        "RecordType LinkedAccountId UsageType ProductCode",
        "an AWS detailed billing report, which AWS replaced by the Cost and Usage Report in 2019",
        "create a Data Export (CUR 2.0) in the AWS Billing console and load its files",
    ),
    (
        "num_model_requests input_tokens",
        "OpenAI's usage: tokens, not their cost",
        "load the costs: answers of /v1/organization/costs by line item and project, or the dashboard's cost export",
    ),
    (
        "uncached_input_tokens output_tokens",
        "Anthropic's usage: tokens, not their cost",
        "load the costs: answers of /v1/organizations/cost_report by description and workspace",
    ),
    (
        "usage_date_utc usage_output_tokens",
        "Anthropic's usage: tokens, not their cost",
        "load the costs: the CSV of the Console's cost page",
    ),
    ("skus", "an answer of the Google Cloud price list API, not a bill", "gpucost collect prices"),
    (
        "report_period_start interval_start",
        "OpenShift usage of the cost management operator: usage, not charges",
        "load the cloud's own billing export; usage comes from Prometheus: gpucost collect prometheus",
    ),
    (
        "Timestamp UsageType Operation InstanceID MyBidID",
        "a spot instance data feed: prices of spot instances, not a bill",
        "gpucost collect spot",
    ),
)

_EXPECTED = (
    "expected an AWS Cost and Usage Report (legacy CUR or CUR 2.0), a Google Cloud detailed usage cost export, an Azure cost "
    "export, an OCI cost report, OpenAI's or Anthropic's costs, or a FOCUS 1.0 to 1.4 cost and usage file"
)


def _spellings(form: Format, column: str) -> list[str]:
    return [squeeze(spelling) for spelling in (column, *form.columns[column])]


def _lacking(form: Format, there: set[str]) -> list[str]:
    return [column for column in form.required.split() if there.isdisjoint(_spellings(form, column))]


def _nearest(there: set[str]) -> str:
    """The format with the most matching columns, and the columns it lacks."""
    lacking = [(form, _lacking(form, there)) for form in all_formats()]
    shares = [(len(missing) / len(form.required.split()), form, missing) for form, missing in lacking]
    share, best, missing = min(shares, key=itemgetter(0))
    if share > 0.6:
        return "its columns match no known format"
    return f"it resembles {best.title}, but lacks the columns {', '.join(missing)}"
