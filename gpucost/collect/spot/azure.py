"""Azure: the spot price history in Azure Resource Graph, the last months of each size and region.

Table and query: https://learn.microsoft.com/azure/virtual-machines/spot-vms#pricing-and-eviction-history.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

from gpucost.clouds import AZURE_LOGIN, NoCredentials, azure_login, line, require
from gpucost.collect.prices.public import PublicList
from gpucost.collect.spot.base import BadFact, moment_of, price_of, text_of
from gpucost.errors import SourceError
from gpucost.store.prices import SpotPrice

if TYPE_CHECKING:
    from gpucost.config.model import Azure

SOURCE = "azure"
# What EC2 calls it: one word for Linux in all of spot_prices.
_PRODUCT = "Linux/UNIX"
_PATH = "/providers/Microsoft.ResourceGraph/resources?api-version=2021-03-01"
_AGAIN = "gpucost collect spot asks again"
# Where one of these is set, somebody meant to log in, and a refusal is an error.
_MEANT = (
    "AZURE_CLIENT_ID",
    "AZURE_TENANT_ID",
    "AZURE_FEDERATED_TOKEN_FILE",
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
)
# Without the id, Resource Graph gives no token for the next page.
_QUERY = """spotresources
| where type =~ 'microsoft.compute/skuspotpricehistory/ostype/location'
| where sku.name in~ ({sizes})
| where properties.osType =~ 'linux'
{regions}| project id, size = tostring(sku.name), location, prices = properties.spotPrices
| order by id asc"""

_log = logging.getLogger(__name__)


def fetch(settings: Azure, types: dict[str, str]) -> list[SpotPrice]:
    """All changes that Resource Graph knows, of Linux prices of accelerated sizes.

    `types` maps lower-cased names of instance types to how the catalog spells them. Raises NoCredentials where nobody is
    logged in; SourceError where Azure refuses, does not answer, or answers what cannot be used.
    """
    regions = f"| where location in~ ({_quoted(settings.regions)})\n" if settings.regions else ""
    options: dict[str, Any] = {"resultFormat": "objectArray", "$top": 1000}
    body: dict[str, Any] = {"query": _QUERY.format(sizes=_quoted(types), regions=regions), "options": options}
    if settings.subscriptions:
        body["subscriptions"] = list(settings.subscriptions)
    rows: list[Any] = []
    url = settings.management_url.rstrip("/") + _PATH
    graph = PublicList("azure", "Azure Resource Graph", "azure.management_url", url, _AGAIN, AZURE_LOGIN)
    graph.headers["Authorization"] = f"Bearer {_token(settings)}"
    while True:
        page = graph.json(url, body=body)
        if not isinstance(page, dict) or not isinstance(page.get("data"), list):
            raise SourceError("Azure Resource Graph answered without data; nothing was loaded", _AGAIN)
        rows += page["data"]
        if not page.get("$skipToken"):
            break
        options["$skipToken"] = page["$skipToken"]
    if str(page.get("resultTruncated", "false")).lower() == "true" or len(rows) < int(
        page.get("totalRecords", len(rows))
    ):
        raise SourceError(
            f"Azure answered {len(rows):,} of {page.get('totalRecords')} rows; nothing was loaded", _AGAIN
        )
    try:
        return [price for row in rows for price in _prices(row, types)]
    except BadFact as error:
        raise SourceError(
            f"Azure answered what cannot be used: {error}; nothing was loaded", _AGAIN
        ) from None


def _token(settings: Azure) -> str:
    require("azure")
    from azure.core.exceptions import ClientAuthenticationError

    try:
        return azure_login().get_token(f"{settings.management_url.rstrip('/')}/.default").token
    except ClientAuthenticationError as error:
        _log.debug("%s", error)
        if any(os.environ.get(name) for name in _MEANT):
            raise SourceError(f"Azure gave no token: {line(error)}", AZURE_LOGIN) from None
        raise NoCredentials("azure: no credentials found", AZURE_LOGIN) from None


def _prices(row: Any, types: dict[str, str]) -> list[SpotPrice]:
    if not isinstance(row, dict) or not isinstance(row.get("prices"), list):
        raise BadFact("a row holds no spotPrices")
    size, region = text_of(row, "size").lower(), text_of(row, "location").lower()
    return [
        SpotPrice(
            provider=SOURCE,
            region=region,
            zone="",
            instance_type=types.get(size, size),
            product=_PRODUCT,
            instance_id="",
            at_ms=moment_of("effectiveDate", text_of(change, "effectiveDate")),
            to_ms=None,
            price=price_of("priceUSD", _digits(change.get("priceUSD"))),
            currency="USD",
            source=SOURCE,
        )
        for change in row["prices"]
    ]


def _quoted(names: Iterable[str]) -> str:
    return ", ".join("'" + name.replace("'", "") + "'" for name in names)


def _digits(value: object) -> str:
    """A number as decimal digits, without an exponent."""
    try:
        return format(Decimal(str(value)), "f")
    except InvalidOperation:
        raise BadFact(f"priceUSD {value!r} is no number") from None
