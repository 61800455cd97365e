"""Azure's cost exports, and answers of the Cost Management query API.

Columns differ by agreement (Enterprise, Microsoft Customer, pay-as-you-go), version and language; their case never matters.
Source: Microsoft Learn, "Understand usage details fields" and "Cost and usage details file schema" (2026).
"""

from __future__ import annotations

from gpucost.collect.bill.formats import Format

_NAMES = """
    date cost payg_cost currency pricing_currency payg_price unit_price invoice_id product_id quantity unit_of_measure
    meter_category meter_subcategory meter_name meter_id product_name service_name service_family resource_id
    resource_name resource_type resource_location availability_zone billing_account_id billing_account_name
    billing_period_start subscription_id subscription_name charge_type pricing_model frequency reservation_id
    reservation_name benefit_id benefit_name product_order_name tags additional_info
"""
_SPELLINGS = {
    "date": ("UsageDateTime", "UsageDate"),
    # not CostUSD: the currency beside it is the bill's own
    "cost": ("CostInBillingCurrency", "PreTaxCost"),
    "payg_cost": ("paygCostInBillingCurrency",),
    "currency": ("BillingCurrencyCode", "BillingCurrency"),
    "pricing_currency": ("PricingCurrencyCode",),
    "product_id": ("PartNumber",),
    "quantity": ("UsageQuantity", "ConsumedQuantity"),
    "meter_name": ("Meter",),
    "meter_id": ("ResourceGuid",),
    "product_name": ("Product",),
    "resource_id": ("InstanceId", "InstanceName"),
    "resource_location": ("ResourceLocationNormalized", "Location"),
    "billing_period_start": ("BillingPeriodStartDate", "BillingMonth"),
    "subscription_id": ("SubscriptionGuid",),
}
COLUMNS = {name: _SPELLINGS.get(name, ()) for name in _NAMES.split()}


def _format(title: str, *required: str) -> Format:
    return Format("azure", title, ("azure",), COLUMNS, required, ("azure_1_rows", "azure_2_mapped"), "azure_findings")


FORMATS = (
    _format("an Azure cost export", "date", "cost", "meter_category", "resource_id"),
    _format("an Azure cost query answer", "date", "cost", "service_name"),
    _format("an Azure cost query answer", "date", "cost", "resource_id", "currency"),
)
