"""Reads what AWS' price list and Savings Plans answer: JSON inside JSON, terms, and what is paid upfront."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from datetime import date, datetime
from decimal import Decimal, InvalidOperation
from typing import Any

from gpucost.errors import SourceError
from gpucost.store.list_prices import ListPrice

PRODUCTS = "aws pricing get_products"
RATES = "aws savingsplans describe_savings_plans_offering_rates"

HOURS_PER_YEAR = 8760  # AWS' own year: a 3-year term has 26,280 hours
_SECONDS_PER_YEAR = HOURS_PER_YEAR * 3600

# What makes a product the plain instance: everything else is another system, tenancy, licence or an unused reservation.
WANTED = {
    "operatingSystem": "Linux",
    "tenancy": "Shared",
    "preInstalledSw": "NA",
    "capacitystatus": "Used",
    "operation": "RunInstances",
}
AGAIN = "gpucost collect prices --provider aws"
_TERMS = {"1yr": 1, "3yr": 3}
_PAYMENTS = {"No Upfront": "no_upfront", "Partial Upfront": "partial_upfront", "All Upfront": "all_upfront"}
_PLANS = {"Compute": "compute", "EC2Instance": "ec2_instance"}


def product_prices(text: str, region: str, instance_types: Collection[str], day: date) -> Iterator[ListPrice]:
    """The on-demand and reserved prices of one product, in JSON, of get_products.

    None where it is no plain Linux instance of `instance_types`. Raises SourceError where the text is no such product.
    """
    try:
        product = json.loads(text)
        if is_plain(product["product"]["attributes"], region, instance_types):
            yield from term_prices(product["product"]["attributes"]["instanceType"], product["terms"], region, day, PRODUCTS)
    except (ValueError, KeyError, TypeError, AttributeError, InvalidOperation) as error:
        raise SourceError(f"aws: a product of {region} cannot be read, half an answer: {_short(error)}", AGAIN) from error


def is_plain(attributes: Mapping[str, str], region: str, instance_types: Collection[str]) -> bool:
    """Whether a product is the plain Linux instance of one of `instance_types` in `region`."""
    if attributes.get("regionCode", region) != region or attributes.get("instanceType") not in instance_types:
        return False
    # capacity blocks and the like are sold beside the plain instance, under the same attributes
    if (attributes.get("marketoption") or "OnDemand") != "OnDemand":
        return False
    return all(attributes.get(name) == value for name, value in WANTED.items())


def term_prices(instance_type: str, terms: Mapping[str, Any], region: str, day: date, source: str) -> Iterator[ListPrice]:
    """The on-demand and reserved prices in the `terms` of a product. Raises ValueError or KeyError where they cannot be read."""
    for term in terms.get("OnDemand", {}).values():
        yield from _term(region, instance_type, term, day, source)
    for term in terms.get("Reserved", {}).values():
        yield from _term(region, instance_type, term, day, source, **_commitment(term["termAttributes"]))


def plan_price(rate: Mapping[str, Any], instance_types: Collection[str], source: str = RATES) -> ListPrice | None:
    """The price of one rate of describe_savings_plans_offering_rates; None where it is of no plain Linux instance.

    The rate of a plan is what its commitment is charged per hour, so anything paid upfront is in it.
    Raises SourceError where the rate cannot be read.
    """
    try:
        offering = rate["savingsPlanOffering"]
        about = {item["name"]: item["value"] for item in rate["properties"]}
        plan = _PLANS.get(offering["planType"])
        term = round(int(offering["durationSeconds"]) / _SECONDS_PER_YEAR)
        price = Decimal(str(rate["rate"]))
        plain = rate["unit"] == "Hrs" and rate["operation"] == "RunInstances" and "BoxUsage" in rate["usageType"]
        # what stands unused in a reservation is charged under a usage of its own
        if not plain or "UnusedBox" in rate["usageType"] or plan is None or price <= 0:
            return None
        if about["instanceType"] not in instance_types:
            return None
        return ListPrice(
            region=about["region"],
            instance_type=about["instanceType"],
            purchase_option="savings_plan",
            term_years=term,
            payment_option=_PAYMENTS[offering["paymentOption"]],
            offering=plan,
            price_per_hour=price,
            currency=offering["currency"],
            source=source,
        )
    except (ValueError, KeyError, TypeError, InvalidOperation) as error:
        raise SourceError(f"aws: a rate of Savings Plans cannot be read: {_short(error)}", AGAIN) from error


def _commitment(about: Mapping[str, str]) -> dict[str, Any]:
    return {
        "purchase_option": "reserved",
        "term_years": _TERMS[about["LeaseContractLength"]],
        "payment_option": _PAYMENTS[about["PurchaseOption"]],
        "offering": about["OfferingClass"],
    }


def _term(
    region: str,
    instance_type: str,
    term: Mapping[str, Any],
    day: date,
    source: str,
    *,
    purchase_option: str = "on_demand",
    term_years: int = 0,
    payment_option: str = "",
    offering: str = "",
) -> Iterator[ListPrice]:
    """One price per currency: per hour, and what is paid upfront spread over the hours of the term."""
    started = datetime.fromisoformat(term["effectiveDate"].replace(" ", "").replace("Z", "+00:00")).date()
    if started > day:
        return
    sums: dict[str, Decimal] = {}
    for dimension in term["priceDimensions"].values():
        for currency, text in dimension["pricePerUnit"].items():
            amount = Decimal(text)
            if dimension["unit"] == "Quantity":
                amount /= term_years * HOURS_PER_YEAR
            elif dimension["unit"] != "Hrs":
                raise ValueError(f"the unit {dimension['unit']}")
            sums[currency] = sums.get(currency, Decimal(0)) + amount
    for currency, price in sums.items():
        if price > 0:
            yield ListPrice(
                region=region,
                instance_type=instance_type,
                purchase_option=purchase_option,
                term_years=term_years,
                payment_option=payment_option,
                offering=offering,
                price_per_hour=price,
                currency=currency,
                effective_start=started,
                source=source,
            )


def _short(error: Exception) -> str:
    return f"{type(error).__name__} {str(error)[:80]}"
