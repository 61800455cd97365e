"""Azure: the spot price history in Azure Resource Graph, the last months of each size and region.

Table and query: https://learn.microsoft.com/azure/virtual-machines/spot-vms#pricing-and-eviction-history.
"""

from __future__ import annotations

import json
import logging
import os
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from gpucost.collect.base import NoCredentials
from gpucost.collect.spot.base import BadFact, moment_of, price_of, text_of
from gpucost.errors import SourceError
from gpucost.http import PASSING, Passing, asked_again, retry_after
from gpucost.store.prices import SpotPrice

if TYPE_CHECKING:
    import requests

    from gpucost.config.model import Azure

SOURCE = "azure"
# What EC2 calls it: one word for Linux in all of spot_prices.
PRODUCT = "Linux/UNIX"
_PATH = "/providers/Microsoft.ResourceGraph/resources?api-version=2021-03-01"
_AGAIN = "gpucost collect spot asks again"
_LOGIN = "az login, or set AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET"
# Where one of these is set, somebody meant to log in, and a refusal is an error.
_MEANT = ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT")

_log = logging.getLogger(__name__)


class AzureSpot:
    """Spot prices of Azure. `types` maps lower-cased names of instance types to how the catalog spells them."""

    def __init__(self, settings: Azure, types: dict[str, str], *, longest_wait: float = 60.0) -> None:
        self._settings = settings
        self._types = types
        self._longest_wait = longest_wait

    def fetch(self) -> list[SpotPrice]:
        """All changes that Resource Graph knows, of Linux prices of accelerated sizes.

        Raises NoCredentials where nobody is logged in; SourceError where Azure refuses, does not answer, or answers what
        cannot be used.
        """
        import requests

        prices: list[SpotPrice] = []
        with requests.Session() as session:
            session.headers["Authorization"] = f"Bearer {self._token()}"
            rows = 0
            skip: str | None = None
            while True:
                page = self._page(session, skip)
                rows += len(page["data"])
                for row in page["data"]:
                    prices += self._prices(row)
                skip = page.get("$skipToken")
                if not skip:
                    break
        if str(page.get("resultTruncated", "false")).lower() == "true" or rows < int(page.get("totalRecords", rows)):
            raise SourceError(f"Azure answered {rows:,} of {page.get('totalRecords')} rows; nothing was loaded", _AGAIN)
        return prices

    def _token(self) -> str:
        from azure.core.exceptions import ClientAuthenticationError
        from azure.identity import DefaultAzureCredential

        # Its refusals list every way to log in, at length.
        logging.getLogger("azure").setLevel(logging.ERROR)
        try:
            with DefaultAzureCredential() as credential:
                return credential.get_token(f"{self._settings.management_url.rstrip('/')}/.default").token
        except ClientAuthenticationError as error:
            _log.debug("%s", error)
            if any(os.environ.get(name) for name in _MEANT):
                first = str(error.message or error).strip().splitlines()[0]
                raise SourceError(f"Azure gave no token: {first}", _LOGIN) from None
            raise NoCredentials("azure: no credentials found", _LOGIN) from None

    def _page(self, session: requests.Session, skip: str | None) -> dict[str, Any]:
        body: dict[str, Any] = {"query": self._query(), "options": {"resultFormat": "objectArray", "$top": 1000}}
        if self._settings.subscriptions:
            body["subscriptions"] = list(self._settings.subscriptions)
        if skip:
            body["options"]["$skipToken"] = skip
        try:
            return asked_again(lambda: self._ask(session, body), attempts=6, longest_wait=self._longest_wait)
        except Passing as error:
            raise SourceError(f"Azure Resource Graph: {error}", "try again later: gpucost collect spot") from None

    def _ask(self, session: requests.Session, body: dict[str, Any]) -> dict[str, Any]:
        import requests

        try:
            response = session.post(self._settings.management_url.rstrip("/") + _PATH, json=body, timeout=60)
            text = response.text
        except requests.RequestException as error:
            raise Passing(f"no answer ({type(error).__name__})") from None
        if response.status_code in PASSING:
            raise Passing(f"HTTP {response.status_code}", retry_after(response.headers))
        if response.status_code != 200:
            fix = _LOGIN if response.status_code in (401, 403) else "check azure.subscriptions and azure.management_url"
            raise SourceError(f"Azure Resource Graph refused with HTTP {response.status_code}: {_said(text)}", fix)
        try:
            answer = json.loads(text, parse_float=str)
        except ValueError:
            raise Passing("half an answer, or none in JSON") from None
        if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
            raise SourceError("Azure Resource Graph answered without data; nothing was loaded", _AGAIN)
        return answer

    def _query(self) -> str:
        regions = f"| where location in~ ({_words(self._settings.regions)})\n" if self._settings.regions else ""
        # Without the id, Resource Graph gives no token for the next page.
        return (
            "spotresources\n"
            "| where type =~ 'microsoft.compute/skuspotpricehistory/ostype/location'\n"
            f"| where sku.name in~ ({_words(self._types)})\n"
            "| where properties.osType =~ 'linux'\n"
            f"{regions}"
            "| project id, size = tostring(sku.name), location, prices = properties.spotPrices\n"
            "| order by id asc"
        )

    def _prices(self, row: Any) -> list[SpotPrice]:
        try:
            if not isinstance(row, dict) or not isinstance(row.get("prices"), list):
                raise BadFact("a row holds no spotPrices")
            size, region = text_of(row, "size").lower(), text_of(row, "location").lower()
            return [
                SpotPrice(
                    provider=SOURCE,
                    region=region,
                    zone="",
                    instance_type=self._types.get(size, size),
                    product=PRODUCT,
                    instance_id="",
                    at_ms=moment_of("effectiveDate", text_of(change, "effectiveDate")),
                    to_ms=None,
                    price=price_of("priceUSD", _digits(change.get("priceUSD"))),
                    currency="USD",
                    source=SOURCE,
                )
                for change in row["prices"]
            ]
        except BadFact as error:
            raise SourceError(f"Azure answered what cannot be used: {error}; nothing was loaded", _AGAIN) from None


def _words(names: Any) -> str:
    return ", ".join("'" + str(name).replace("'", "") + "'" for name in names)


def _digits(value: object) -> str:
    """A number as decimal digits, without an exponent."""
    try:
        return format(Decimal(str(value)), "f")
    except InvalidOperation:
        raise BadFact(f"priceUSD {value!r} is no number") from None


def _said(text: str) -> str:
    """The message in an error of Azure, in one line."""
    try:
        error = json.loads(text)["error"]
        return f"{error['code']}: {error['message']}".replace("\n", " ")[:300]
    except (ValueError, KeyError, TypeError):
        return " ".join(text.split())[:100] or "no reason given"
