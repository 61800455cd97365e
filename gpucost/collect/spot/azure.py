"""Azure: the spot price history in Azure Resource Graph, the last months of each size and region.

Table and query: https://learn.microsoft.com/azure/virtual-machines/spot-vms#pricing-and-eviction-history.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import TYPE_CHECKING, Any

import requests

from gpucost.collect.base import NoCredentials, require
from gpucost.collect.spot.base import BadFact, moment_of, price_of, text_of
from gpucost.errors import SourceError
from gpucost.http import PASSING, TransientError, retry, retry_after
from gpucost.store.prices import SpotPrice

if TYPE_CHECKING:
    from gpucost.config.model import Azure

SOURCE = "azure"
# What EC2 calls it: one word for Linux in all of spot_prices.
_PRODUCT = "Linux/UNIX"
_PATH = "/providers/Microsoft.ResourceGraph/resources?api-version=2021-03-01"
_AGAIN = "gpucost collect spot asks again"
_LOGIN = "az login, or set AZURE_CLIENT_ID, AZURE_TENANT_ID and AZURE_CLIENT_SECRET"
# Where one of these is set, somebody meant to log in, and a refusal is an error.
_MEANT = ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_FEDERATED_TOKEN_FILE", "IDENTITY_ENDPOINT", "MSI_ENDPOINT")
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
    with requests.Session() as session:
        session.headers["Authorization"] = f"Bearer {_token(settings)}"
        while True:
            try:
                page = retry(lambda: _page(session, settings, body), attempts=6, longest_wait=60.0)
            except TransientError as error:
                raise SourceError(f"Azure Resource Graph: {error}", "try again later: gpucost collect spot") from None
            rows += page["data"]
            if not page.get("$skipToken"):
                break
            options["$skipToken"] = page["$skipToken"]
    if str(page.get("resultTruncated", "false")).lower() == "true" or len(rows) < int(page.get("totalRecords", len(rows))):
        raise SourceError(f"Azure answered {len(rows):,} of {page.get('totalRecords')} rows; nothing was loaded", _AGAIN)
    try:
        return [price for row in rows for price in _prices(row, types)]
    except BadFact as error:
        raise SourceError(f"Azure answered what cannot be used: {error}; nothing was loaded", _AGAIN) from None


def _token(settings: Azure) -> str:
    require("azure")
    from azure.core.exceptions import ClientAuthenticationError
    from azure.identity import DefaultAzureCredential

    # Its refusals list every way to log in, at length.
    logging.getLogger("azure").setLevel(logging.ERROR)
    try:
        with DefaultAzureCredential() as credential:
            return credential.get_token(f"{settings.management_url.rstrip('/')}/.default").token
    except ClientAuthenticationError as error:
        _log.debug("%s", error)
        if any(os.environ.get(name) for name in _MEANT):
            first = str(error.message or error).strip().splitlines()[0]
            raise SourceError(f"Azure gave no token: {first}", _LOGIN) from None
        raise NoCredentials("azure: no credentials found", _LOGIN) from None


def _page(session: requests.Session, settings: Azure, body: dict[str, Any]) -> dict[str, Any]:
    try:
        response = session.post(settings.management_url.rstrip("/") + _PATH, json=body, timeout=60)
        text = response.text
    except requests.RequestException as error:
        raise TransientError(f"no answer ({type(error).__name__})") from None
    if response.status_code in PASSING:
        raise TransientError(f"HTTP {response.status_code}", retry_after(response.headers))
    if response.status_code != 200:
        fix = _LOGIN if response.status_code in (401, 403) else "check azure.subscriptions and azure.management_url"
        raise SourceError(f"Azure Resource Graph refused with HTTP {response.status_code}: {_reason(text)}", fix)
    try:
        answer = json.loads(text, parse_float=str)
    except ValueError:
        raise TransientError("half an answer, or none in JSON") from None
    if not isinstance(answer, dict) or not isinstance(answer.get("data"), list):
        raise SourceError("Azure Resource Graph answered without data; nothing was loaded", _AGAIN)
    return answer


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


def _reason(text: str) -> str:
    """The message in an error of Azure, in one line."""
    try:
        error = json.loads(text)["error"]
        return f"{error['code']}: {error['message']}".replace("\n", " ")[:300]
    except (ValueError, KeyError, TypeError):
        return " ".join(text.split())[:100] or "no reason given"
