"""Reads the items of Azure's retail prices: which are virtual machines with GPUs, and how they are bought."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from gpucost.collect.prices.known import known_types
from gpucost.errors import SourceError
from gpucost.store.list_prices import ListPrice

SOURCE = "azure retail prices"

HOURS_PER_YEAR = 8760
# NC, ND, NG and NV hold GPUs; NP holds FPGAs
_FAMILIES = re.compile(r"standard_n[cdgv]", re.IGNORECASE)
_OTHERWISE = re.compile(r"windows|low priority|cloud ?services|dedicated|expired", re.IGNORECASE)
_TERM = re.compile(r"(\d) years?", re.IGNORECASE)


def item_prices(item: Mapping[str, Any], day: date) -> Iterator[ListPrice]:
    """The prices of one item: itself, and what savings plans make of it. None where it is no Linux machine with GPUs.

    Raises SourceError where the item cannot be read.
    """
    try:
        name, region = item["armSkuName"], item["armRegionName"]
        words = " ".join((item["productName"], item["skuName"], item["meterName"]))
        if not region or not (_FAMILIES.match(name) or name in known_types("azure")) or _OTHERWISE.search(words):
            return
        started = datetime.fromisoformat(item["effectiveStartDate"]).date()
        ended = item.get("effectiveEndDate")
        if started > day or (ended and datetime.fromisoformat(ended).date() <= day) or item.get("tierMinimumUnits"):
            return
        price = Decimal(item["retailPrice"])

        def bought(option: str, per_hour: Decimal, term: int = 0) -> ListPrice:
            return ListPrice(
                region=region,
                instance_type=name,
                purchase_option=option,
                term_years=term,
                price_per_hour=per_hour,
                currency=item["currencyCode"],
                effective_start=started,
                source=SOURCE,
            )

        if price <= 0:
            return
        if item["type"] == "Reservation":
            # the whole term's price, though unitOfMeasure says an hour; monthly payments come to the same
            term = _years(item["reservationTerm"])
            yield bought("reserved", price / (term * HOURS_PER_YEAR), term)
        elif item["type"] == "Consumption" and item["unitOfMeasure"] == "1 Hour":
            spot = re.search(r"\bspot\b", f"{item['skuName']} {item['meterName']}", re.IGNORECASE)
            yield bought("spot" if spot else "on_demand", price)
            for plan in item.get("savingsPlan") or ():
                yield bought("savings_plan", Decimal(plan["retailPrice"]), _years(plan["term"]))
    except (ValueError, KeyError, TypeError, ArithmeticError) as error:
        raise SourceError(
            f"azure: an item of the retail prices cannot be read: {type(error).__name__} {str(error)[:80]}",
            "gpucost collect prices --provider azure",
        ) from error


def without_placeholders(prices: Sequence[ListPrice]) -> list[ListPrice]:
    """`prices` without spot that costs as much as on demand there: Azure's placeholder where a size is not sold as spot."""
    on_demand = {
        (price.region, price.instance_type, price.currency, price.price_per_hour)
        for price in prices
        if price.purchase_option == "on_demand"
    }
    return [
        price
        for price in prices
        if price.purchase_option != "spot"
        or (price.region, price.instance_type, price.currency, price.price_per_hour) not in on_demand
    ]


def _years(text: str) -> int:
    if found := _TERM.fullmatch(text.strip()):
        return int(found[1])
    raise ValueError(f"the term {text}")
