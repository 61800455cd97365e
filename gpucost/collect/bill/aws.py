"""AWS Cost and Usage Reports: legacy (`lineItem/UsageStartDate`), CUR, CUR 2.0
(`line_item_usage_start_date`).

The SQL reads CUR 2.0's names; case and separators in other deliveries (Athena, connectors) never matter.
Sources: AWS CUR User Guide and AWS Data Exports User Guide, data dictionaries.
"""

import re

from gpucost.collect.bill.formats import Format, spelled, squeeze

_NAMES = """
    bill_billing_period_start_date bill_invoice_id bill_payer_account_id
    capacity_reservation_capacity_reservation_arn capacity_reservation_capacity_reservation_type cost_category
    identity_line_item_id line_item_availability_zone line_item_currency_code line_item_line_item_description
    line_item_line_item_type line_item_operation line_item_product_code line_item_resource_id line_item_tax_type
    line_item_usage_account_id line_item_usage_account_name line_item_usage_end_date line_item_usage_start_date
    line_item_usage_type pricing_purchase_option pricing_rate_code pricing_term pricing_unit product
    product_instance_type product_operating_system product_product_family product_product_name product_region
    product_sku reservation_reservation_a_r_n resource_tags savings_plan_savings_plan_a_r_n
    split_line_item_parent_resource_id tags bill_billing_period_end_date
"""
_NUMBERS = """
    line_item_net_unblended_cost line_item_net_unblended_rate line_item_unblended_cost line_item_unblended_rate
    line_item_usage_amount pricing_public_on_demand_cost pricing_public_on_demand_rate
    reservation_amortized_upfront_cost_for_usage reservation_effective_cost reservation_net_effective_cost
    reservation_net_unused_amortized_upfront_fee_for_billing_period reservation_net_unused_recurring_fee
    reservation_recurring_fee_for_usage reservation_unused_amortized_upfront_fee_for_billing_period
    reservation_unused_recurring_fee savings_plan_amortized_upfront_commitment_for_billing_period
    savings_plan_net_amortized_upfront_commitment_for_billing_period
    savings_plan_net_recurring_commitment_for_billing_period savings_plan_net_savings_plan_effective_cost
    savings_plan_recurring_commitment_for_billing_period savings_plan_savings_plan_effective_cost
    savings_plan_total_commitment_to_date savings_plan_used_commitment split_line_item_net_split_cost
    split_line_item_split_cost
"""

# The legacy report spells a reservation's ARN in one word; Athena tables drop the duplicate prefixes.
_SPELLINGS = {
    "reservation_reservation_a_r_n": "reservation/ReservationARN reservation_arn",
    "savings_plan_savings_plan_a_r_n": "savingsPlan/SavingsPlanARN savings_plan_arn",
    "product_region": "product/regionCode",
    "product_product_name": "product/servicename",
    "line_item_currency_code": "pricing/currency",
    "bill_payer_account_id": "payer_account_id",
}

_TAG = re.compile(r"^(?:resourceTags/|resource_tags_)(?:user[:_]|(aws)[:_])?(.+)$", re.IGNORECASE)
_COST_CATEGORY = re.compile(r"^(?:costCategory/|cost_category[/_])(.+)$", re.IGNORECASE)


def _entry(column: str) -> tuple[str, str] | None:
    """A tag or a cost category by its column's name.

    `resourceTags/user:team` and `resource_tags_user_team` are the tag `team`; AWS's own tags keep `aws:`.
    `costCategory/Department` and `cost_category_Department` are the cost category `Department`.
    """
    if category := _COST_CATEGORY.match(column):
        return "cost_category_columns", category.group(1)
    tag = _TAG.match(column)
    if tag is None or squeeze(column) == "resourcetags":
        return None
    return "tag_columns", f"aws:{tag.group(2)}" if tag.group(1) else tag.group(2)


CUR = Format(
    name="aws-cur",
    title="an AWS Cost and Usage Report",
    provider="aws",
    columns=spelled(_NAMES + _NUMBERS, _SPELLINGS),
    required="""
        line_item_usage_start_date line_item_usage_end_date line_item_usage_type line_item_unblended_cost
        line_item_usage_account_id""",
    sql="aws_1_read aws_2_facts aws_2_shares aws_2_moved aws_3_mapped",
    entry=_entry,
    line_item=("identity_line_item_id", "line_item_usage_start_date"),
    times=(
        "line_item_usage_start_date",
        "line_item_usage_end_date",
        "bill_billing_period_start_date",
        "bill_billing_period_end_date",
    ),
    numbers=_NUMBERS,
)

FORMATS = (CUR,)
