"""Google Cloud's usage cost export: the detailed one, and the standard one, which names no machines.

Source of columns and meanings: Cloud Billing documentation, "Structure of Detailed data export" (2026).
"""

from __future__ import annotations

from gpucost.collect.bill.formats import Format

# Flattened files have a column per field of a record ('service.id'), nested ones the record ('service').
RECORDS = {
    "service": ("id", "description"),
    "sku": ("id", "description"),
    "project": ("id", "name"),
    "location": ("region", "zone"),
    "usage": ("amount", "unit", "amount_in_pricing_units", "pricing_unit"),
    "invoice": ("month",),
    "adjustment_info": ("type",),
    "resource": ("name", "global_name"),
    "subscription": ("instance_id",),
    "consumption_model": ("description",),
    "price": ("list_price", "effective_price_default", "pricing_unit_quantity"),
}
_PLAIN = """
    billing_account_id usage_start_time usage_end_time cost cost_at_list cost_at_effective_price_default currency
    cost_type credits labels system_labels
"""
PLAIN = tuple(_PLAIN.split())
COLUMNS: dict[str, tuple[str, ...]] = {
    **dict.fromkeys(PLAIN, ()),
    **dict.fromkeys(RECORDS, ()),
    **{f"{record}_{name}": () for record, names in RECORDS.items() for name in names},
}


def _format(*named: str) -> Format:
    required = ("billing_account_id", "usage_start_time", "usage_end_time", "cost", "credits", *named)
    sql = ("gcp_1_rows", "gcp_2_hours", "gcp_3_fees", "gcp_4_mapped")
    return Format("gcp", "a Google Cloud usage cost export", ("gcp",), COLUMNS, required, sql, "gcp_findings", catalog=True)


FORMATS = (_format("service", "invoice"), _format("service_description", "invoice_month"))
