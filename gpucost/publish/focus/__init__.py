"""The FOCUS export: the bill's charges for GPU machines, split among their holders; see docs/focus.md."""

from decimal import Decimal
from pathlib import Path

from gpucost.config.model import Config
from gpucost.engine import run_stage
from gpucost.errors import NoDataError
from gpucost.periods import Period, bill_month, from_ms
from gpucost.pipeline import read_attributed
from gpucost.questions.report import api_cost
from gpucost.questions.report.rows import ZERO
from gpucost.records import DuckDBPyConnection, frozen_dataclass
from gpucost.shapes import Shape
from gpucost.store.charges import find_tokens
from gpucost.store.connection import Store
from gpucost.store.table_files import FileKind, save_table

DEFAULT_VERSION = "1.2"
PREFIX = "x_gpucost_"

_COLUMNS = """AvailabilityZone BilledCost BillingAccountId BillingAccountName BillingCurrency BillingPeriodEnd
    BillingPeriodStart CapacityReservationId CapacityReservationStatus ChargeCategory ChargeClass ChargeDescription
    ChargeFrequency ChargePeriodEnd ChargePeriodStart CommitmentDiscountCategory CommitmentDiscountId CommitmentDiscountName
    CommitmentDiscountQuantity CommitmentDiscountStatus CommitmentDiscountType CommitmentDiscountUnit ConsumedQuantity
    ConsumedUnit ContractedCost ContractedUnitPrice EffectiveCost InvoiceId InvoiceIssuerName ListCost ListUnitPrice
    PricingCategory PricingQuantity PricingUnit ProviderName PublisherName RegionId RegionName ResourceId ResourceName
    ResourceType ServiceCategory ServiceName ServiceSubcategory SkuId SkuMeter SkuPriceDetails SkuPriceId SubAccountId
    SubAccountName Tags"""
_SINCE_1_3 = """AllocatedMethodDetails AllocatedMethodId AllocatedResourceId AllocatedResourceName AllocatedTags HostProviderName
    ServiceProviderName"""
# Columns of gpucost itself, in every version, by their names in 60_rows.sql.
_OWN = """kind team cluster namespace workload node gpu_model capacity_type gpu_hours share is_estimate charge_kind instance_key
    instance_type instance_hours origin_charge_key origin_file origin_row"""
# Columns of a split charge in FOCUS 1.3; older versions have the same facts in our own columns.
_SPLIT = {
    "allocated_method_details": "AllocatedMethodDetails",
    "allocated_method_id": "AllocatedMethodId",
    "allocated_resource_id": "AllocatedResourceId",
    "allocated_resource_name": "AllocatedResourceName",
}


def columns_of(version: str) -> dict[str, str]:
    """The columns of a file in order, with the name of each in the table focus_rows.

    Since 1.3 a split charge has the dimensions of the original, including tags; the holder's tags are in
    AllocatedTags.
    """
    own_columns = {PREFIX + name: name for name in _OWN.split()}
    if version == "1.3":
        standard = sorted(f"{_COLUMNS} {_SINCE_1_3}".split())
        return dict(zip(standard, standard, strict=True)) | {"Tags": "OriginTags"} | own_columns
    return (
        {name: name for name in _COLUMNS.split()}
        | own_columns
        | {PREFIX + name: source for name, source in _SPLIT.items()}
    )


# A bill's months follow the clock of its provider.
_CHARGED = """SELECT epoch_ms(min(charge_period_start)), epoch_ms(max(charge_period_end))
FROM token_charges WHERE billing_period = $month"""


# Estimates are in the report's currency only.
_SUMS = """SELECT is_estimate, BillingCurrency, count(*), sum(BilledCost), sum(EffectiveCost)
FROM focus_rows GROUP BY ALL ORDER BY ALL"""


@frozen_dataclass
class FocusFile(Shape):
    """The totals of a FOCUS file; costs by currency."""

    version: str
    charges: int
    rows: int
    billed_cost: dict[str, Decimal]
    effective_cost: dict[str, Decimal]
    estimated_cost: Decimal
    estimated_rows: int

    HIDDEN = ("estimated_rows",)

    @property
    def billed_rows(self) -> int:
        """Parts of the bill's charges."""
        return self.rows - self.estimated_rows


def focus_file(
    config: Config, store: Store, month: str, version: str, kind: FileKind, path: Path
) -> FocusFile:
    """Write the bill of `month` (`2026-10`), split among the holders of its machines, as a FOCUS file.

    Raises NoDataError if neither a bill nor metrics have any cost for that month.
    """

    def written(con: DuckDBPyConnection) -> FocusFile:
        totals = prepare(con, config, month, version)
        if not totals.rows:
            raise NoDataError(f"no cost found for {month}", "run gpucost store info for the collected months")
        save(con, version, kind, path)
        return totals

    return read_attributed(config, store, written, None, path.parent)


def prepare(con: DuckDBPyConnection, config: Config, month: str, version: str = DEFAULT_VERSION) -> FocusFile:
    """Make the temporary table focus_rows for the billing period `month` (`2026-10`, UTC).

    Needs an up-to-date attribution; works on a read-only connection. The table is empty if neither a bill nor metrics
    have any cost for that month.
    """
    period = bill_month(month)
    find_tokens(con)
    ((first, last),) = con.execute(_CHARGED, {"month": month}).fetchall()
    begin = min(first or period.start_ms, period.start_ms)
    end = max(last or period.end_ms, period.end_ms)
    api_cost.prepare(con, config, Period(from_ms(begin), from_ms(end)))
    run_stage(con, __name__, "10_charges", {"month": month})
    run_stage(con, __name__, "20_holders")
    run_stage(con, __name__, "40_splits")
    run_stage(con, __name__, "60_rows", period.bounds | {"month": month, "currency": config.currency})
    ((charges,),) = con.execute("SELECT count(*) FROM focus_charges").fetchall()
    sums = con.execute(_SUMS).fetchall()
    billed = {currency: cost for is_estimate, currency, _, cost, _ in sums if not is_estimate}
    effective = {currency: cost for is_estimate, currency, _, _, cost in sums if not is_estimate}
    rows = sum(count for _, _, count, *_ in sums)
    estimated_rows, estimate = next(
        ((count, cost) for is_estimate, _, count, _, cost in sums if is_estimate), (0, ZERO)
    )
    return FocusFile(version, charges, rows, billed, effective, estimate, estimated_rows)


def save(con: DuckDBPyConnection, version: str, kind: FileKind, path: Path) -> None:
    """Write the rows from `prepare`, with the columns of this version of FOCUS."""
    save_table(con, "focus_rows", columns_of(version), kind, path)
