"""Azure's Cost Management query API: daily costs by resource and meter, where there is no export.

Source: Microsoft Learn, Cost Management REST API, "Query - Usage" 2025-03-01. Its answers name columns and give rows; they come
in pages behind `nextLink`, and are throttled by quota units, with the seconds to wait in headers of several names.
"""

from __future__ import annotations

import json
from calendar import monthrange
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, Literal

from gpucost.collect.base import require
from gpucost.collect.bill.azure_blobs import in_words, line, login
from gpucost.collect.bill.gcp_google import is_loopback
from gpucost.collect.bill.manifest import Manifest
from gpucost.collect.bill.opening import Entry, Tree, records
from gpucost.errors import SourceError
from gpucost.http import PASSING, TransientError, retry, retry_after

if TYPE_CHECKING:
    from pathlib import Path

    from azure.core.rest import HttpResponse
    from azure.mgmt.costmanagement import CostManagementClient

CostType = Literal["AmortizedCost", "ActualCost"]
_DIMENSIONS = (
    "ResourceId",
    "ResourceType",
    "ResourceLocation",
    "SubscriptionId",
    "MeterCategory",
    "MeterSubCategory",
    "Meter",
    "ChargeType",
    "PricingModel",
    "ReservationId",
)


class QueryTree(Tree):
    """One file of JSON lines per month ('2026-10'), asked for when it is fetched. `scope` is a subscription or billing scope."""

    def __init__(
        self,
        scope: str,
        months: Sequence[str],
        cost_type: CostType,
        *,
        management_url: str,
        tell: Callable[[str], None],
        longest_wait: float = 120.0,
    ) -> None:
        self._scope = scope.strip("/")
        self._months = months
        self._type = cost_type
        self._url = management_url.rstrip("/")
        self._longest_wait = longest_wait
        self._tell = tell
        self.name = f"azure-query:/{self._scope}?type={cost_type}"

    def entries(self) -> list[Entry]:
        return [Entry(f"{month}.{self._type}.jsonl", 0) for month in self._months]

    def manifests(self) -> list[Manifest]:
        return [Manifest(f"{month}.json", self.name, month, (f"{month}.{self._type}.jsonl",)) for month in self._months]

    def fetch(self, entry: Entry, directory: Path) -> Path:
        month = entry.key.partition(".")[0]
        target = directory / entry.key
        rows = 0
        with self._client() as client, target.open("w", encoding="utf-8") as out:
            page: str | None = None
            while True:
                answer = self._page(client, month, page)
                for row in records(answer):
                    out.write(json.dumps(row) + "\n")
                    rows += 1
                page = (answer.get("properties") or {}).get("nextLink")
                if not page:
                    break
                self._tell(f"{self.name}: {month}: {rows:,} rows")
        if not rows:
            raise SourceError(f"{self.name} has no costs of {month}", "check azure.cost_scope and the month")
        return target

    def shown(self, entry: Entry) -> str:
        return f"{self.name}#{entry.key.partition('.')[0]}"

    def digest(self, entry: Entry) -> str:  # noqa: ARG002
        # An answer is never known to be the same before it is read.
        from uuid import uuid4

        return uuid4().hex

    def _client(self) -> CostManagementClient:
        require("azure")
        from azure.mgmt.costmanagement import CostManagementClient

        options: dict[str, Any] = {"base_url": self._url, "retry_total": 0}
        if is_loopback(self._url):
            from azure.core.pipeline.policies import SansIOHTTPPolicy

            # Tokens are for Azure's own servers, never for a stand-in.
            return CostManagementClient(_Nobody(), authentication_policy=SansIOHTTPPolicy(), **options)
        return CostManagementClient(login(), credential_scopes=[f"{self._url}/.default"], **options)

    def _page(self, client: CostManagementClient, month: str, link: str | None) -> dict[str, Any]:
        try:
            text = retry(lambda: self._ask(client, month, link), attempts=8, longest_wait=self._longest_wait)
        except TransientError as error:
            raise SourceError(f"{self.name}: {error}", "try again later: the API answers few questions a minute") from None
        if not text:
            return {"properties": {"columns": [], "rows": []}}
        try:
            answer = json.loads(text, parse_float=str)
        except ValueError:
            answer = None
        if not isinstance(answer, dict) or not isinstance((answer.get("properties") or {}).get("rows"), list):
            raise SourceError(f"{self.name} answered what is no cost query answer", "check azure.management_url")
        return answer

    def _ask(self, client: CostManagementClient, month: str, link: str | None) -> str:
        from azure.core.exceptions import ServiceRequestError, ServiceResponseError
        from azure.core.rest import HttpRequest

        body = self._definition(month)
        try:
            with in_words(self.name):
                if link is None:
                    return str(client.query.usage(self._scope, body, cls=lambda got, _result, _headers: got.http_response.text()))  # type: ignore[call-overload]
                # The answer's own link, with the same body; never to another host.
                if not link.startswith(self._url + "/"):
                    raise SourceError(f"{self.name}: the answer goes on at another server", "check azure.management_url")
                response = client.send_request(HttpRequest("POST", link, json=body))
                self._check(response)
                return response.text()
        except SourceError as error:
            passing = _passing(error.__context__)
            if passing is not None:
                raise passing from None
            if isinstance(error.__context__, (ServiceRequestError, ServiceResponseError)):
                raise TransientError(f"no answer: {line(error.__context__)}") from None
            raise

    def _check(self, response: HttpResponse) -> None:
        from azure.core.exceptions import ClientAuthenticationError, HttpResponseError

        if response.status_code == 401:
            raise ClientAuthenticationError(response=response)
        if response.status_code != 200:
            raise HttpResponseError(response=response)

    def _definition(self, month: str) -> dict[str, Any]:
        last = monthrange(int(month[:4]), int(month[5:]))[1]
        return {
            "type": self._type,
            "timeframe": "Custom",
            "timePeriod": {"from": f"{month}-01T00:00:00Z", "to": f"{month}-{last}T23:59:59Z"},
            "dataset": {
                "granularity": "Daily",
                "aggregation": {
                    "totalCost": {"name": "Cost", "function": "Sum"},
                    "totalQuantity": {"name": "UsageQuantity", "function": "Sum"},
                },
                "grouping": [{"type": "Dimension", "name": name} for name in _DIMENSIONS],
            },
        }


class _Nobody:
    """A credential for servers that ask for none: the client wants one with this method, and its policy never calls it."""

    def get_token(self, *_scopes: str, **_options: object) -> Any:
        raise NotImplementedError("no server on loopback asks who is there")


def _passing(error: BaseException | None) -> TransientError | None:
    status = getattr(error, "status_code", None)
    if status not in PASSING:
        return None
    headers = getattr(getattr(error, "response", None), "headers", None) or {}
    return TransientError(f"throttled or failing, again and again: HTTP {status}", retry_after(headers))
