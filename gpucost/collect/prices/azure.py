"""Azure list prices: the retail prices API, which needs no login."""

import re
from collections.abc import Iterator, Sequence
from datetime import date, datetime
from decimal import Decimal
from functools import partial

from gpucost.collect.prices.base import (
    HOURS_PER_YEAR,
    PriceCollector,
    again,
    public_list,
    read_as,
    types_in_catalog,
    without_duplicates,
)
from gpucost.errors import SourceError
from gpucost.http import JsonServer
from gpucost.inputs import JsonObject
from gpucost.store.prices import ListPrice, ProviderPrices

SOURCE = "azure retail prices"

# NC, ND, NG and NV have GPUs; NP has FPGAs.
_FAMILIES = re.compile(r"standard_n[cdgv]", re.IGNORECASE)
_OTHERWISE = re.compile(r"windows|low priority|cloud ?services|dedicated|expired", re.IGNORECASE)
_TERM = re.compile(r"(\d) years?", re.IGNORECASE)


def item_prices(item: JsonObject, day: date) -> Iterator[ListPrice]:
    """The prices of one item: its own, and with savings plans. None unless it is a Linux machine with GPUs.

    Raises SourceError if the item cannot be read.
    """
    with read_as("azure: cannot read an item of the retail prices", again("azure")):
        name, region = item["armSkuName"], item["armRegionName"]
        words = " ".join((item["productName"], item["skuName"], item["meterName"]))
        if (
            not region
            or not (_FAMILIES.match(name) or name in types_in_catalog("azure"))
            or _OTHERWISE.search(words)
        ):
            return
        started = datetime.fromisoformat(item["effectiveStartDate"]).date()
        ended = item.get("effectiveEndDate")
        if (
            started > day
            or (ended and datetime.fromisoformat(ended).date() <= day)
            or item.get("tierMinimumUnits")
        ):
            return
        price = Decimal(item["retailPrice"])
        if price <= 0:
            return
        bought = partial(
            ListPrice,
            region=region,
            instance_type=name,
            currency=item["currencyCode"],
            effective_start=started,
            source=SOURCE,
        )
        if item["type"] == "Reservation":
            # The price of the whole term, although unitOfMeasure is an hour; monthly payments have the same
            # total.
            term = _years(item["reservationTerm"])
            yield bought(
                purchase_option="reserved", price_per_hour=price / (term * HOURS_PER_YEAR), term_years=term
            )
        elif item["type"] == "Consumption" and item["unitOfMeasure"] == "1 Hour":
            spot = re.search(r"\bspot\b", f"{item['skuName']} {item['meterName']}", re.IGNORECASE)
            yield bought(purchase_option="spot" if spot else "on_demand", price_per_hour=price)
            for plan in item.get("savingsPlan") or ():
                term = _years(plan["term"])
                yield bought(
                    purchase_option="savings_plan",
                    price_per_hour=Decimal(plan["retailPrice"]),
                    term_years=term,
                )


def without_placeholders(prices: Sequence[ListPrice]) -> list[ListPrice]:
    """`prices` without spot prices equal to on-demand prices, Azure's placeholder for sizes without spot."""
    on_demand = {_cost(price) for price in prices if price.purchase_option == "on_demand"}
    return [price for price in prices if price.purchase_option != "spot" or _cost(price) not in on_demand]


def _cost(price: ListPrice) -> tuple[object, ...]:
    return (price.region, price.instance_type, price.currency, price.price_per_hour)


def _years(text: str) -> int:
    if term := _TERM.fullmatch(text.strip()):
        return int(term[1])
    raise ValueError(f"the term {text}")


# The version with savings plans.
API_VERSION = "2023-01-01-preview"


class AzurePrices(PriceCollector):
    """On-demand, spot, reserved and savings plan prices of virtual machines with GPUs."""

    provider = "azure"

    def fetch(self) -> ProviderPrices:
        wanted = self.regions or self.config.azure.regions
        prices = []
        setting, server = "[azure] retail_prices_url", self.config.azure.retail_prices_url
        public = public_list(self.provider, "the list of retail prices", setting, server)
        for region in wanted or [""]:
            in_region = [
                price for item in self._items(public, region) for price in item_prices(item, self.day)
            ]
            if not in_region:
                raise SourceError(
                    f"azure: no prices of GPU machines in {region or 'any region'}",
                    "gpucost collect prices --provider azure --region eastus, or set other regions in [azure]",
                )
            prices += in_region
        distinct = without_placeholders(without_duplicates(prices))
        return ProviderPrices("azure", wanted or sorted({price.region for price in distinct}), distinct)

    def _items(self, public: JsonServer, region: str) -> Iterator[JsonObject]:
        wanted = "serviceName eq 'Virtual Machines' and startswith(armSkuName, 'Standard_N')"
        if region:
            wanted += f" and armRegionName eq '{region}'"
        url: str | None = self.config.azure.retail_prices_url
        params: dict[str, str] | None = {
            "api-version": API_VERSION,
            "currencyCode": self.config.currency,
            "$filter": wanted,
        }
        turned: set[str] = set()
        while url:
            self.show_progress(f"{region or 'all regions'}: page {len(turned) + 1}")
            page = public.ask("GET", url, params=params, number=Decimal, is_whole=_is_whole)
            yield from page["Items"]
            turned.add(url)
            # The link contains the parameters.
            url, params = page.get("NextPageLink") or None, None
            if url in turned:
                raise SourceError(
                    f"azure: the retail prices pages do not end: {url} follows itself", public.later
                )


def _is_whole(page: JsonObject) -> bool:
    return isinstance(page["Items"], list) and page.get("Count", len(page["Items"])) == len(page["Items"])
