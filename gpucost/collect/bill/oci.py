"""OCI's cost reports: the classic one (`lineItem/referenceNo`), and the FOCUS preview with `oci_` columns.

Neither contains a machine's shape. Both have a row per resource, SKU and hour; machines are charged by
GPU-hours, or by OCPU- and GB-hours. Sources: OCI documentation, "Cost and Usage Reports Overview" (cost
report schema) and "FOCUS Cost Report Schema" (2026).
"""

import re

from gpucost.collect.bill.formats import Format, spelled

_CLASSIC = """
    line_item_reference_no line_item_tenant_id line_item_interval_usage_start line_item_interval_usage_end
    line_item_is_correction line_item_backreference_no product_service product_compartment_name product_region
    product_availability_domain product_resource_id product_description usage_billed_quantity cost_subscription_id
    cost_product_sku cost_unit_price cost_my_cost cost_currency_code cost_billing_unit_readable
"""
# Names of the preview, next to the names of FOCUS 1.0 and later.
_FOCUS = """
    oci_reference_number oci_back_reference_number oci_compartment_name availability_zone billed_cost billing_account_id
    billing_currency billing_period_start charge_category charge_class charge_description charge_frequency
    billing_period_end charge_period_end charge_period_start charge_subcategory commitment_discount_category
    commitment_discount_id commitment_discount_name commitment_discount_type effective_cost invoice_id list_cost list_unit_price
    pricing_category pricing_quantity pricing_unit region resource_id resource_name resource_type service_category
    service_name sku_id sku_price_id sub_account_id sub_account_name tags usage_quantity usage_unit
"""
_NUMBERS = """
    usage_billed_quantity cost_unit_price cost_my_cost billed_cost effective_cost list_cost list_unit_price
    pricing_quantity usage_quantity
"""
_SPELLINGS = {
    "line_item_backreference_no": "lineItem/backReference",
    # The second name is from later reports.
    "cost_billing_unit_readable": "cost/skuUnitDescription",
    "region": "RegionId",
    "usage_quantity": "ConsumedQuantity",
    "usage_unit": "ConsumedUnit",
}
_TAG = re.compile(r"^tags/(.+)$", re.IGNORECASE)


def _entry(column: str) -> tuple[str, str] | None:
    """A tag by its column's name: `tags/team` is `team`."""
    tag = _TAG.match(column)
    return ("tag_columns", tag.group(1)) if tag else None


def _format(name: str, title: str, times: tuple[str | None, ...], reference: str, required: str) -> Format:
    return Format(
        name,
        title,
        "oci",
        spelled(_CLASSIC + _FOCUS, _SPELLINGS),
        f"{reference} {required}",
        "oci",
        has_findings=False,
        entry=_entry,
        line_item=(reference,),
        times=times,
        numbers=_NUMBERS,
    )


FORMATS = (
    _format(
        "oci",
        "an OCI cost report",
        ("line_item_interval_usage_start", "line_item_interval_usage_end", None, None),
        "line_item_reference_no",
        """line_item_interval_usage_start line_item_interval_usage_end product_resource_id usage_billed_quantity
        cost_my_cost""",
    ),
    _format(
        "oci-focus",
        "an OCI cost report in FOCUS columns",
        ("charge_period_start", "charge_period_end", "billing_period_start", "billing_period_end"),
        "oci_reference_number",
        "billed_cost charge_category charge_period_start charge_period_end billing_period_start",
    ),
)
