"""Azure's list prices: the retail prices API, which asks nobody who they are."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any, ClassVar

from gpucost.collect.prices.base import PriceCollector, known_types, one_of_each
from gpucost.collect.prices.public import PublicList
from gpucost.errors import SourceError
from gpucost.store.prices import ListPrice, ProviderPrices

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


# The version that has savings plans.
API_VERSION = "2023-01-01-preview"


class AzurePrices(PriceCollector):
    """On-demand, spot, reserved and savings plan prices of virtual machines with GPUs."""

    provider: ClassVar[str] = "azure"

    def fetch(self) -> ProviderPrices:
        wanted = self.regions or self.config.azure.regions
        prices: list[ListPrice] = []
        public = PublicList(self.provider, "the list of retail prices", "[azure] retail_prices_url")
        for region in wanted or [""]:
            found = [price for item in self._items(public, region) for price in item_prices(item, self.day)]
            if not found:
                raise SourceError(
                    f"azure: there are no prices of GPU machines in {region or 'any region'}",
                    "gpucost collect prices --provider azure --region eastus, or name other regions under [azure]",
                )
            prices += found
        one_each = without_placeholders(one_of_each(prices))
        return ProviderPrices("azure", wanted or sorted({price.region for price in one_each}), one_each)

    def _items(self, public: PublicList, region: str) -> Iterator[dict[str, Any]]:
        wanted = "serviceName eq 'Virtual Machines' and startswith(armSkuName, 'Standard_N')"
        if region:
            wanted += f" and armRegionName eq '{region}'"
        asked = {"api-version": API_VERSION, "currencyCode": self.config.currency, "$filter": wanted}
        url: str | None = self.config.azure.retail_prices_url
        params: dict[str, str] | None = asked
        turned: set[str] = set()
        while url:
            self.tell(f"{region or 'all regions'}: page {len(turned) + 1}")
            page = public.json(url, params=params, whole=_is_whole)
            yield from page["Items"]
            turned.add(url)
            # the link holds what was asked
            url, params = page.get("NextPageLink") or None, None
            if url in turned:
                raise SourceError(f"azure: the retail prices have no end: {url} follows itself", public.again)


def _is_whole(page: dict[str, Any]) -> bool:
    return isinstance(page["Items"], list) and page.get("Count", len(page["Items"])) == len(page["Items"])
