"""Azure: recent spot prices and eviction rates by size and region, from Azure Resource Graph.

Tables and queries: https://learn.microsoft.com/azure/virtual-machines/spot-vms#pricing-and-eviction-history.
"""

import logging
import os
import re
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Any

from gpucost import http, inputs
from gpucost.clouds import AZURE_LOGIN, NoCredentials, azure_login, line, require
from gpucost.collect.spot.base import BadFact, moment_of, price_of, text_of
from gpucost.config.model import Azure
from gpucost.errors import SourceError
from gpucost.store.prices import EvictionRate, SpotAnswer, SpotPrice

SOURCE = "azure"
# EC2's name, so that all spot_prices have one word for Linux.
_PRODUCT = "Linux/UNIX"
_LONGEST_SECONDS = 3600.0
_PATH = "/providers/Microsoft.ResourceGraph/resources?api-version=2021-03-01"
_AGAIN = "try again with gpucost collect spot"
# If one of these is set, a login was intended, and a refusal is an error.
_MEANT = (
    "AZURE_CLIENT_ID",
    "AZURE_TENANT_ID",
    "AZURE_FEDERATED_TOKEN_FILE",
    "IDENTITY_ENDPOINT",
    "MSI_ENDPOINT",
)
# Without the id, Resource Graph returns no token for the next page.
_QUERY = """spotresources
| where type =~ 'microsoft.compute/skuspotpricehistory/ostype/location'
| where sku.name in~ ({sizes})
| where properties.osType =~ 'linux'
{regions}| project id, size = tostring(sku.name), location, prices = properties.spotPrices
| order by id asc"""
_EVICTIONS = """spotresources
| where type =~ 'microsoft.compute/skuspotevictionrate/location'
| where sku.name in~ ({sizes})
{regions}| project id, size = tostring(sku.name), location, evictionRate = tostring(properties.evictionRate)
| order by id asc"""
# In percent per hour: "0-5", "20+".
_BAND = re.compile(r"(\d{1,2})(?:-\d{1,3}|\+)")

_log = logging.getLogger(__name__)


def fetch(settings: Azure, types: dict[str, str]) -> SpotAnswer:
    """All Linux price changes of accelerated sizes in Resource Graph, and today's eviction rates.

    `types` maps lower-case instance types to the catalog's spelling. Raises NoCredentials without a login;
    SourceError if Azure refuses, does not answer, or the answer cannot be used.
    """
    regions = f"| where location in~ ({_quoted(settings.regions)})\n" if settings.regions else ""
    url = settings.management_url.rstrip("/") + _PATH
    session = http.session(url, _LONGEST_SECONDS, inputs.ANSWER)
    session.headers["Authorization"] = f"Bearer {_token(settings)}"
    graph = http.JsonServer("azure: Azure Resource Graph", session, AZURE_LOGIN, _AGAIN, _AGAIN)
    prices, evictions = (
        _rows(graph, url, query.format(sizes=_quoted(types), regions=regions), settings.subscriptions)
        for query in (_QUERY, _EVICTIONS)
    )
    try:
        rates = [rate for row in evictions if (rate := _eviction_rate(row, types))]
        return SpotAnswer([price for row in prices for price in _prices(row, types)], rates)
    except BadFact as error:
        raise SourceError(f"Azure's answer cannot be used: {error}; no prices were loaded", _AGAIN) from None


def _rows(graph: http.JsonServer, url: str, query: str, subscriptions: Iterable[str]) -> list[Any]:
    """All rows of a query, page by page. Raises SourceError if some are missing."""
    options: dict[str, Any] = {"resultFormat": "objectArray", "$top": 1000}
    body: dict[str, Any] = {"query": query, "options": options}
    if subscriptions:
        body["subscriptions"] = list(subscriptions)
    rows: list[Any] = []
    while True:
        page = graph.ask("POST", url, json=body, number=Decimal)
        if not isinstance(page, dict) or not isinstance(page.get("data"), list):
            raise SourceError("Azure Resource Graph's answer has no data; no prices were loaded", _AGAIN)
        rows += page["data"]
        if not page.get("$skipToken"):
            break
        options["$skipToken"] = page["$skipToken"]
    if str(page.get("resultTruncated", "false")).lower() == "true" or len(rows) < int(
        page.get("totalRecords", len(rows))
    ):
        raise SourceError(
            f"Azure returned {len(rows):,} of {page.get('totalRecords')} rows; no prices were loaded", _AGAIN
        )
    return rows


def _token(settings: Azure) -> str:
    require("azure")
    from azure.core.exceptions import ClientAuthenticationError

    try:
        return azure_login().get_token(f"{settings.management_url.rstrip('/')}/.default").token
    except ClientAuthenticationError as error:
        _log.debug("%s", error)
        if any(os.environ.get(name) for name in _MEANT):
            raise SourceError(f"Azure returned no token: {line(error)}", AZURE_LOGIN) from None
        raise NoCredentials("azure: no credentials found", AZURE_LOGIN) from None


def _prices(row: Any, types: dict[str, str]) -> list[SpotPrice]:
    kind, region = _place(row, types)
    if not isinstance(row.get("prices"), list):
        raise BadFact("a row has no spotPrices")
    return [
        SpotPrice(
            provider=SOURCE,
            region=region,
            instance_type=kind,
            product=_PRODUCT,
            at_ms=moment_of("effectiveDate", text_of(change, "effectiveDate")),
            price=price_of("priceUSD", _digits(change.get("priceUSD"))),
            source=SOURCE,
        )
        for change in row["prices"]
    ]


def _eviction_rate(row: Any, types: dict[str, str]) -> EvictionRate | None:
    """The row's rate; None, with a warning, unless it is a percentage range. Prices do not depend on it."""
    kind, region = _place(row, types)
    band = _BAND.fullmatch(str(row.get("evictionRate")))
    if not band:
        _log.warning("azure: no eviction rate of %s in %s: %r", kind, region, row.get("evictionRate"))
        return None
    return EvictionRate(SOURCE, region, kind, int(band[1]))


def _place(row: Any, types: dict[str, str]) -> tuple[str, str]:
    """The instance type and region of a row. Raises BadFact."""
    if not isinstance(row, dict):
        raise BadFact("a row is not an object")
    size = text_of(row, "size").lower()
    return types.get(size, size), text_of(row, "location").lower()


def _quoted(names: Iterable[str]) -> str:
    return ", ".join("'" + name.replace("'", "") + "'" for name in names)


def _digits(value: object) -> str:
    """A number as decimal digits, without an exponent."""
    try:
        return format(Decimal(str(value)), "f")
    except InvalidOperation:
        raise BadFact(f"priceUSD {value!r} is not a number") from None
