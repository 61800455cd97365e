"""Which columns a FOCUS file has, by version. Names as the specification of each version spells them (focus.finops.org)."""

from __future__ import annotations

from gpucost.errors import UsageError

DEFAULT_VERSION = "1.2"
VERSIONS = ("1.0", "1.2", "1.3")
PREFIX = "x_gpucost_"

_SINCE_1_0 = (
    "AvailabilityZone", "BilledCost", "BillingAccountId", "BillingAccountName", "BillingCurrency", "BillingPeriodEnd",
    "BillingPeriodStart", "ChargeCategory", "ChargeClass", "ChargeDescription", "ChargeFrequency", "ChargePeriodEnd",
    "ChargePeriodStart", "CommitmentDiscountCategory", "CommitmentDiscountId", "CommitmentDiscountStatus",
    "CommitmentDiscountName", "CommitmentDiscountType", "ConsumedQuantity", "ConsumedUnit", "ContractedCost",
    "ContractedUnitPrice", "EffectiveCost", "InvoiceIssuerName", "ListCost", "ListUnitPrice", "PricingCategory",
    "PricingQuantity", "PricingUnit", "ProviderName", "PublisherName", "RegionId", "RegionName", "ResourceId", "ResourceName",
    "ResourceType", "ServiceCategory", "ServiceName", "SkuId", "SkuPriceId", "SubAccountId", "SubAccountName", "Tags",
)  # fmt: skip
# Of 1.1 and 1.2: 1.1 itself is not written.
_SINCE_1_2 = (
    "CapacityReservationId", "CapacityReservationStatus", "CommitmentDiscountQuantity", "CommitmentDiscountUnit", "InvoiceId",
    "ServiceSubcategory", "SkuMeter", "SkuPriceDetails",
)  # fmt: skip
_SINCE_1_3 = (
    "AllocatedMethodDetails", "AllocatedMethodId", "AllocatedResourceId", "AllocatedResourceName", "AllocatedTags",
    "HostProviderName", "ServiceProviderName",
)  # fmt: skip

# Columns of gpucost's own, in every version, by what they are called in 60_rows.sql.
_OWN = (
    "kind", "team", "cluster", "namespace", "workload", "node", "gpu_model", "capacity_type", "gpu_hours", "share",
    "is_estimate", "charge_kind", "instance_key", "instance_type", "instance_hours", "origin_charge_key", "origin_file",
    "origin_row",
)  # fmt: skip
# How 1.3 splits a charge; before it, the same facts stand in columns of our own.
_SPLIT = {
    "allocated_method_details": "AllocatedMethodDetails",
    "allocated_method_id": "AllocatedMethodId",
    "allocated_resource_id": "AllocatedResourceId",
    "allocated_resource_name": "AllocatedResourceName",
}


def columns_of(version: str) -> dict[str, str]:
    """The columns of a file in order, and what each is called in the table focus_rows. Raises UsageError for a version unknown.

    Since 1.3 the dimensions of a split charge are the origin's, tags included; the holder's tags stand in AllocatedTags.
    """
    if version not in VERSIONS:
        raise UsageError(f"FOCUS {version} is not written", f"--focus-version takes one of {', '.join(VERSIONS)}")
    names = [*_SINCE_1_0, *(_SINCE_1_2 if version != "1.0" else ()), *(_SINCE_1_3 if version == "1.3" else ())]
    columns = {name: name for name in sorted(names)}
    if version == "1.3":
        columns["Tags"] = "OriginTags"
    own = {PREFIX + name: name for name in _OWN}
    return columns | own | ({} if version == "1.3" else {PREFIX + name: told for name, told in _SPLIT.items()})
