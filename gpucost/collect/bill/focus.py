"""FOCUS cost and usage, 1.0 to 1.4, of any provider (focus.finops.org): specification or snake case spelling."""

import re

from gpucost.collect.bill.formats import Format

# x_: additions of AWS, Azure and gpucost's own files; they separate a machine's hours from its other charges.
_NAMES = """
    AvailabilityZone BillingAccountId BillingCurrency BillingPeriodStart CapacityReservationId
    CapacityReservationStatus ChargeCategory ChargeClass ChargeDescription ChargeFrequency ChargePeriodEnd
    ChargePeriodStart CommitmentDiscountCategory CommitmentDiscountId CommitmentDiscountName
    CommitmentDiscountStatus CommitmentDiscountType CommitmentDiscountUnit ConsumedUnit InvoiceId InvoiceIssuerName
    PricingCategory PricingUnit ProviderName PublisherName RegionId ResourceId ResourceName ResourceType
    ServiceCategory ServiceName ServiceProviderName ServiceSubcategory SkuId SkuMeter SkuPriceDetails SkuPriceId
    SubAccountId SubAccountName Tags x_CostCategories x_UsageType x_Operation x_SkuDetails x_SkuMeterName
    x_InstanceType x_gpucost_charge_kind x_gpucost_instance_key x_gpucost_instance_type BillingPeriodEnd
"""
_NUMBERS = """
    BilledCost CommitmentDiscountQuantity ConsumedQuantity ContractedCost ContractedUnitPrice EffectiveCost ListCost
    ListUnitPrice PricingQuantity x_gpucost_instance_hours
"""


def _snake(name: str) -> str:
    return re.sub("(?<=[^_])(?=[A-Z])", "_", name).lower()


FOCUS = Format(
    name="focus",
    title="a FOCUS cost and usage file",
    provider="",
    columns={_snake(name): () for name in (_NAMES + _NUMBERS).split()},
    required="""
        billed_cost effective_cost charge_category charge_period_start charge_period_end billing_period_start""",
    sql="focus",
    times=("charge_period_start", "charge_period_end", "billing_period_start", "billing_period_end"),
    numbers=" ".join(map(_snake, _NUMBERS.split())),
)

FORMATS = (FOCUS,)
