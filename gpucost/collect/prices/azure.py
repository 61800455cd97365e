"""Azure's list prices: the retail prices API, which asks nobody who they are."""

from __future__ import annotations

import json
from collections.abc import Iterator
from decimal import Decimal
from typing import TYPE_CHECKING, Any, ClassVar

from gpucost.collect.passing import PASSING, Passing, asked_again, retry_after
from gpucost.collect.prices.azure_items import item_prices, without_placeholders
from gpucost.collect.prices.base import PriceCollector, one_of_each
from gpucost.errors import SourceError
from gpucost.store.list_prices import ListPrice, ProviderPrices

if TYPE_CHECKING:
    import requests

# The version that has savings plans.
API_VERSION = "2023-01-01-preview"

_AGAIN = "gpucost collect prices --provider azure"
_ATTEMPTS = 5
_LONGEST_PAUSE = 120.0


class AzurePrices(PriceCollector):
    """On-demand, spot, reserved and savings plan prices of virtual machines with GPUs."""

    provider: ClassVar[str] = "azure"

    def fetch(self) -> ProviderPrices:
        import requests

        wanted = self.regions or self.config.azure.regions
        prices: list[ListPrice] = []
        with requests.Session() as session:
            for region in wanted or [""]:
                found = [price for item in self._items(session, region) for price in item_prices(item, self.day)]
                if not found:
                    raise SourceError(
                        f"azure: there are no prices of GPU machines in {region or 'any region'}",
                        "gpucost collect prices --provider azure --region eastus, or name other regions under [azure]",
                    )
                prices += found
        one_each = without_placeholders(one_of_each(prices))
        return ProviderPrices("azure", wanted or sorted({price.region for price in one_each}), one_each)

    def _items(self, session: requests.Session, region: str) -> Iterator[dict[str, Any]]:
        wanted = "serviceName eq 'Virtual Machines' and startswith(armSkuName, 'Standard_N')"
        if region:
            wanted += f" and armRegionName eq '{region}'"
        asked = {"api-version": API_VERSION, "currencyCode": self.config.currency, "$filter": wanted}
        url: str | None = self.config.azure.retail_prices_url
        params: dict[str, str] | None = asked
        turned: set[str] = set()
        while url:
            self.tell(f"{region or 'all regions'}: page {len(turned) + 1}")
            page = self._page(session, url, params)
            yield from page["Items"]
            turned.add(url)
            # the link holds what was asked
            url, params = page.get("NextPageLink") or None, None
            if url in turned:
                raise SourceError(f"azure: the retail prices have no end: {url} follows itself", _AGAIN)

    def _page(self, session: requests.Session, url: str, params: dict[str, str] | None) -> dict[str, Any]:
        """One page, asked again where that can help. Raises SourceError."""
        try:
            return asked_again(lambda: self._page_once(session, url, params), attempts=_ATTEMPTS, longest_wait=_LONGEST_PAUSE)
        except Passing as error:
            raise SourceError(f"azure: {error}", f"wait a while, then {_AGAIN}") from error

    def _page_once(self, session: requests.Session, url: str, params: dict[str, str] | None) -> dict[str, Any]:
        import requests

        try:
            answer = session.get(url, params=params, timeout=(10, 60))
        except (requests.ConnectionError, requests.Timeout) as error:
            raise Passing(f"cannot be reached, or the connection broke off: {_line(error)}") from error
        except requests.exceptions.ChunkedEncodingError as error:
            raise Passing(f"half an answer, the connection broke off: {_line(error)}") from error
        except requests.RequestException as error:
            raise SourceError(f"azure: {_line(error)}", "[azure] retail_prices_url says where the retail prices are") from error
        if answer.status_code in PASSING:
            reason = "throttled, again and again" if answer.status_code == 429 else "does not answer"
            raise Passing(f"{reason} (HTTP {answer.status_code})", retry_after(answer.headers))
        if answer.status_code in (401, 403):
            raise SourceError(
                f"azure: the retail prices are refused (HTTP {answer.status_code})",
                "a proxy may stand between; the API needs no login",
            )
        if answer.status_code != 200:
            raise SourceError(f"azure: HTTP {answer.status_code}: {' '.join(answer.text.split())[:200]}", _AGAIN)
        try:
            page = json.loads(answer.content, parse_float=Decimal)
            whole = isinstance(page["Items"], list) and page.get("Count", len(page["Items"])) == len(page["Items"])
        except (ValueError, KeyError, TypeError) as error:
            raise Passing("half an answer, cut off or no answer of the retail prices at all") from error
        if not whole:
            raise Passing("half an answer: items are missing from a page")
        return dict(page)


def _line(error: Exception) -> str:
    """What is at the bottom of a failure: requests wraps it in what urllib3 wrapped."""
    while inner := getattr(error, "reason", None) or next((arg for arg in error.args if isinstance(arg, Exception)), None):
        error = inner
    return " ".join(str(error).split())[:200]
