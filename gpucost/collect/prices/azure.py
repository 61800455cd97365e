"""Azure's list prices: the retail prices API, which asks nobody who they are."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, ClassVar

from gpucost.collect.prices.azure_items import item_prices, without_placeholders
from gpucost.collect.prices.base import PriceCollector, one_of_each
from gpucost.collect.prices.public import PublicList
from gpucost.errors import SourceError
from gpucost.store.list_prices import ListPrice, ProviderPrices

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
