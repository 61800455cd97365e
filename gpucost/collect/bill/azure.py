"""Azure's cost exports, and answers of the Cost Management query API.

Columns differ by agreement (Enterprise, Microsoft Customer, pay-as-you-go), version and language; their case never matters.
Source: Microsoft Learn, "Understand usage details fields" and "Cost and usage details file schema" (2026).
"""

from __future__ import annotations

from gpucost.collect.bill.formats import Format

COLUMNS: dict[str, tuple[str, ...]] = {
    "date": ("UsageDateTime", "UsageDate"),
    # not CostUSD: the currency beside it is the bill's own
    "cost": ("CostInBillingCurrency", "PreTaxCost"),
    "payg_cost": ("paygCostInBillingCurrency",),
    "currency": ("BillingCurrencyCode", "BillingCurrency"),
    "pricing_currency": ("PricingCurrencyCode",),
    "payg_price": (),
    "unit_price": (),
    "invoice_id": (),
    "product_id": ("PartNumber",),
    "quantity": ("UsageQuantity", "ConsumedQuantity"),
    "unit_of_measure": (),
    "meter_category": (),
    "meter_subcategory": (),
    "meter_name": ("Meter",),
    "meter_id": ("ResourceGuid",),
    "product_name": ("Product",),
    "service_name": (),
    "service_family": (),
    "resource_id": ("InstanceId", "InstanceName"),
    "resource_name": (),
    "resource_type": (),
    "resource_location": ("ResourceLocationNormalized", "Location"),
    "availability_zone": (),
    "billing_account_id": (),
    "billing_account_name": (),
    "billing_period_start": ("BillingPeriodStartDate", "BillingMonth"),
    "subscription_id": ("SubscriptionGuid",),
    "subscription_name": (),
    "charge_type": (),
    "pricing_model": (),
    "frequency": (),
    "reservation_id": (),
    "reservation_name": (),
    "benefit_id": (),
    "benefit_name": (),
    "product_order_name": (),
    "tags": (),
    "additional_info": (),
}
_SQL = ("azure_1_rows", "azure_2_mapped")
_TITLE = "an Azure cost export"

FORMATS = (
    Format("azure", _TITLE, ("azure",), COLUMNS, ("date", "cost", "meter_category", "resource_id"), _SQL, "azure_findings"),
    Format("azure", "an Azure cost query answer", ("azure",), COLUMNS, ("date", "cost", "service_name"), _SQL, "azure_findings"),
    Format(
        "azure",
        "an Azure cost query answer",
        ("azure",),
        COLUMNS,
        ("date", "cost", "resource_id", "currency"),
        _SQL,
        "azure_findings",
    ),
)
