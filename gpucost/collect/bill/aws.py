"""AWS Cost and Usage Reports, in S3 too: legacy (`lineItem/UsageStartDate`), CUR and CUR 2.0 (`line_item_usage_start_date`).

CUR 2.0's names are the ones that the SQL reads; how other deliveries (Athena, connectors) case and part them never matters.
Sources: AWS CUR User Guide and AWS Data Exports User Guide, data dictionaries.
"""

from __future__ import annotations

import re
from contextlib import contextmanager
from functools import cached_property
from typing import TYPE_CHECKING, Any

from gpucost.collect.base import require
from gpucost.collect.bill.formats import Format, spelled, squeeze
from gpucost.collect.bill.opening import BucketTree, Entry
from gpucost.collect.clouds import aws_client, aws_in_words, aws_login
from gpucost.errors import SourceError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from gpucost.config.model import Aws

_NAMES = """
    bill_billing_period_start_date bill_invoice_id bill_payer_account_id capacity_reservation_capacity_reservation_arn
    capacity_reservation_capacity_reservation_type cost_category identity_line_item_id line_item_availability_zone
    line_item_currency_code line_item_line_item_description line_item_line_item_type line_item_net_unblended_cost
    line_item_net_unblended_rate line_item_operation line_item_product_code line_item_resource_id line_item_tax_type
    line_item_unblended_cost line_item_unblended_rate line_item_usage_account_id line_item_usage_account_name
    line_item_usage_amount line_item_usage_end_date line_item_usage_start_date line_item_usage_type
    pricing_public_on_demand_cost pricing_public_on_demand_rate pricing_purchase_option pricing_rate_code pricing_term
    pricing_unit product product_instance_type product_operating_system product_product_family product_product_name
    product_region product_sku reservation_amortized_upfront_cost_for_usage reservation_effective_cost
    reservation_net_effective_cost reservation_net_unused_amortized_upfront_fee_for_billing_period
    reservation_net_unused_recurring_fee reservation_recurring_fee_for_usage reservation_reservation_a_r_n
    reservation_unused_amortized_upfront_fee_for_billing_period reservation_unused_recurring_fee resource_tags
    savings_plan_amortized_upfront_commitment_for_billing_period
    savings_plan_net_amortized_upfront_commitment_for_billing_period
    savings_plan_net_recurring_commitment_for_billing_period savings_plan_net_savings_plan_effective_cost
    savings_plan_recurring_commitment_for_billing_period savings_plan_savings_plan_a_r_n
    savings_plan_savings_plan_effective_cost savings_plan_total_commitment_to_date savings_plan_used_commitment
    split_line_item_net_split_cost split_line_item_parent_resource_id split_line_item_split_cost
"""

# The legacy report says a reservation's ARN in one word; Athena tables drop the doubled prefixes.
_SPELLINGS = {
    "reservation_reservation_a_r_n": ("reservation/ReservationARN", "reservation_arn"),
    "savings_plan_savings_plan_a_r_n": ("savingsPlan/SavingsPlanARN", "savings_plan_arn"),
    "product_region": ("product/regionCode",),
    "product_product_name": ("product/servicename",),
    "line_item_currency_code": ("pricing/currency",),
    "bill_payer_account_id": ("payer_account_id",),
}

_TAG = re.compile(r"^(?:resourceTags/|resource_tags_)(?:user[:_]|(aws)[:_])?(.+)$", re.IGNORECASE)
_COST_CATEGORY = re.compile(r"^(?:costCategory/|cost_category[/_])(.+)$", re.IGNORECASE)


def _entry(column: str) -> tuple[str, str] | None:
    """A tag or a cost category by its column's name.

    `resourceTags/user:team` and `resource_tags_user_team` are the tag `team`, AWS's own keep `aws:`; `costCategory/Department`
    and `cost_category_Department` are the cost category `Department`.
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
    providers=("aws",),
    columns=spelled(_NAMES, _SPELLINGS),
    required=(
        "line_item_usage_start_date",
        "line_item_usage_end_date",
        "line_item_usage_type",
        "line_item_unblended_cost",
        "line_item_usage_account_id",
    ),
    sql=("aws_1_read", "aws_2_shares", "aws_3_mapped"),
    entry=_entry,
    line_item=("identity_line_item_id", "line_item_usage_start_date"),
)

FORMATS = (CUR,)

_CHUNK = 8 << 20
_ATTEMPTS = 3


class S3Tree(BucketTree):
    """The files below a prefix of a bucket, `s3://bucket/prefix`; credentials are those that boto3 finds."""

    scheme = "s3://"

    def __init__(self, address: str, settings: Aws) -> None:
        super().__init__(address.rstrip("/"))
        self._settings = settings

    def entries(self) -> list[Entry]:
        if entries := super().entries():
            return entries
        raise SourceError(f"there is nothing at {self.name}", f"aws s3 ls --recursive s3://{self.bucket}/")

    def around(self) -> list[Entry]:
        # A manifest of Data Exports lies under metadata/, its files beside that.
        above, metadata, _ = self.prefix.partition("/metadata/")
        return self.listed(above if metadata else self.prefix.rpartition("/")[0])

    def fetch(self, entry: Entry, directory: Path) -> Path:
        target = self.target(entry, directory)
        with self._in_words():
            for _ in range(_ATTEMPTS):
                answer = self._client.get_object(Bucket=self.bucket, Key=entry.key, IfMatch=f'"{entry.tag}"')
                with target.open("wb") as out:
                    got = sum(out.write(chunk) for chunk in answer["Body"].iter_chunks(_CHUNK))
                if got == entry.size:
                    return target
        raise SourceError(f"{self.shown(entry)} broke off after {got:,} of {entry.size:,} bytes", "run the command again")

    def listed(self, prefix: str) -> list[Entry]:
        with self._in_words():
            pages = self._client.get_paginator("list_objects_v2").paginate(Bucket=self.bucket, Prefix=prefix)
            return [
                Entry(item["Key"], item["Size"], item["ETag"].strip('"'))
                for page in pages
                for item in page.get("Contents", [])
                if item["Size"] and not item["Key"].endswith("/")
            ]

    @cached_property
    def _client(self) -> Any:
        session = aws_login(self._settings)
        return aws_client(session, self._settings, "s3", session.region_name or "us-east-1")

    @contextmanager
    def _in_words(self) -> Iterator[None]:
        """Turns what boto3 fails with into words."""
        require("aws")
        from botocore.exceptions import ClientError

        with aws_in_words(self.name, "run the command again", "s3:ListBucket on the bucket and s3:GetObject on its files"):
            try:
                yield
            except ClientError as error:
                # of a file that is asked for as it was listed, and is another one by now
                if error.response["Error"].get("Code") not in ("PreconditionFailed", "412"):
                    raise
                raise SourceError(f"{self.name}: AWS is delivering a new version", "run the command again") from None
            except OSError as error:
                message = f"{self.name}: cannot keep the file on disk: {error.strerror or error}"
                raise SourceError(message, "TMPDIR names another disk") from None
