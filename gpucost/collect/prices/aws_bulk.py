"""AWS' bulk price lists, one CSV file a region, which anybody may read: on demand, reserved and Savings Plans."""

from __future__ import annotations

import re
from collections.abc import Collection
from decimal import InvalidOperation
from typing import TYPE_CHECKING, Any

from gpucost.collect.prices.aws_products import AGAIN, HOURS_PER_YEAR, WANTED, is_plain, plan_price, term_prices
from gpucost.errors import SourceError
from gpucost.store.list_prices import ListPrice

if TYPE_CHECKING:
    from datetime import date

    from gpucost.collect.prices.public import PublicList, Row

PRODUCTS = "aws bulk price list"
RATES = "aws bulk savings plans"

_SERVERS = {"aws": "https://pricing.us-east-1.amazonaws.com", "cn": "https://pricing.cn-north-1.amazonaws.com.cn"}
_PLANS = {"ComputeSavingsPlans": "Compute", "EC2InstanceSavingsPlans": "EC2Instance"}
# The attributes that is_plain asks for, by the names that columns have.
_ATTRIBUTES = {name.lower(): name for name in (*WANTED, "regionCode", "instanceType", "marketoption")}


def product_prices(
    public: PublicList, server: str | None, region: str, instance_types: Collection[str], day: date
) -> list[ListPrice]:
    """The on-demand and reserved prices of `instance_types` in a region. Raises SourceError."""

    def keep(row: Row) -> Row | None:
        attributes = {name: row[column] for column, name in _ATTRIBUTES.items() if column in row}
        return row if is_plain(attributes, region, instance_types) else None

    partition = _partition(region)
    rows = public.rows(f"{server or _SERVERS[partition]}/offers/v1.0/{partition}/AmazonEC2/current/{region}/index.csv", keep)
    try:
        products: dict[str, dict[str, Any]] = {}
        for row in rows:
            terms = products.setdefault(row["instancetype"], {}).setdefault(row["termtype"], {})
            term = terms.setdefault((row["sku"], row["offertermcode"]), _term(row))
            dimension = {"unit": row["unit"], "pricePerUnit": {row["currency"]: row["priceperunit"]}}
            term["priceDimensions"][row["ratecode"]] = dimension
        return [price for name, terms in products.items() for price in term_prices(name, terms, region, day, PRODUCTS)]
    except (ValueError, KeyError, InvalidOperation) as error:
        raise SourceError(
            f"aws: the bulk price list of {region} cannot be read: {type(error).__name__} {str(error)[:80]}", AGAIN
        ) from error


def plan_prices(public: PublicList, server: str | None, region: str, instance_types: Collection[str]) -> list[ListPrice]:
    """The Savings Plans prices of `instance_types` in a region; none where AWS has no plans there. Raises SourceError."""
    partition = _partition(region)
    base = server or _SERVERS[partition]
    index = public.json(
        f"{base}/savingsPlan/v1.0/{partition}/AWSComputeSavingsPlan/current/region_index.json",
        whole=lambda answer: all(item["regionCode"] and item["versionUrl"] for item in answer["regions"]),
    )
    path = next((item["versionUrl"] for item in index["regions"] if item["regionCode"] == region), None)
    if path is None:
        return []

    def keep(row: Row) -> ListPrice | None:
        # instances of one's own hardware and unused reservations have usage types of their own
        if row["discountedservicecode"] != "AmazonEC2" or not re.match(r"(.*-)?BoxUsage:", row["discountedusagetype"]):
            return None
        if row["discountedregioncode"] != region or row["productfamily"] not in _PLANS:
            return None
        return plan_price(_rate(row), instance_types, RATES)

    return public.rows(base + re.sub(r"\.json$", ".csv", path), keep)


def _term(row: Row) -> dict[str, Any]:
    about = {"leasecontractlength": "LeaseContractLength", "purchaseoption": "PurchaseOption", "offeringclass": "OfferingClass"}
    return {
        "effectiveDate": row["effectivedate"],
        "priceDimensions": {},
        "termAttributes": {name: row[column] for column, name in about.items()},
    }


def _rate(row: Row) -> dict[str, Any]:
    """A row as describe_savings_plans_offering_rates answers it."""
    return {
        "savingsPlanOffering": {
            "planType": _PLANS[row["productfamily"]],
            "durationSeconds": int(row["leasecontractlength"]) * HOURS_PER_YEAR * 3600,
            "paymentOption": row["purchaseoption"],
            "currency": row["currency"],
        },
        "properties": [
            {"name": "instanceType", "value": row["discountedusagetype"].partition(":")[2]},
            {"name": "region", "value": row["discountedregioncode"]},
        ],
        "rate": row["discountedrate"],
        "unit": row["unit"],
        "usageType": row["discountedusagetype"],
        "operation": row["discountedoperation"],
    }


def _partition(region: str) -> str:
    return "cn" if region.startswith("cn-") else "aws"
