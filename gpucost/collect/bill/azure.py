"""Azure's cost exports, or daily costs by resource and meter from the Cost Management query API.

Columns differ by agreement (Enterprise, Microsoft Customer, pay-as-you-go), version and language; case never
matters. The API's answers have column names and rows. They are paged with `nextLink` and throttled by quota
units, with the wait in seconds in several headers. Sources: Microsoft Learn, "Understand usage details
fields" and "Cost and usage details file schema" (2026); Cost Management REST API, "Query - Usage" 2025-03-01.
"""

from __future__ import annotations

import json
from calendar import monthrange
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal
from uuid import uuid4

from gpucost import inputs
from gpucost.clouds import azure_in_words, azure_login, is_loopback, line, require
from gpucost.collect.bill.formats import Format, spelled
from gpucost.collect.bill.opening import MonthTree, is_answer, records
from gpucost.errors import SourceError
from gpucost.inputs import JsonObject
from gpucost.objects import Entry

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from azure.mgmt.costmanagement import CostManagementClient

_NAMES = """
    date currency pricing_currency invoice_id product_id unit_of_measure meter_category meter_subcategory meter_name
    meter_id product_name service_name service_family resource_id resource_name resource_type resource_location
    availability_zone billing_account_id billing_account_name billing_period_start subscription_id subscription_name
    charge_type pricing_model frequency reservation_id reservation_name benefit_id benefit_name product_order_name
    tags additional_info billing_period_end
"""
_NUMBERS = """
    cost payg_cost payg_price unit_price quantity
"""
_SPELLINGS = {
    "date": "UsageDateTime UsageDate",
    # not CostUSD: the currency column is the bill's own
    "cost": "CostInBillingCurrency PreTaxCost",
    "payg_cost": "paygCostInBillingCurrency",
    "currency": "BillingCurrencyCode BillingCurrency",
    "pricing_currency": "PricingCurrencyCode",
    "product_id": "PartNumber",
    "quantity": "UsageQuantity ConsumedQuantity",
    "meter_name": "Meter",
    "meter_id": "ResourceGuid",
    "product_name": "Product",
    "resource_id": "InstanceId InstanceName",
    "resource_location": "ResourceLocationNormalized Location",
    "billing_period_start": "BillingPeriodStartDate BillingMonth",
    "billing_period_end": "BillingPeriodEndDate",
    "subscription_id": "SubscriptionGuid",
}


def _format(title: str, required: str) -> Format:
    return Format(
        "azure",
        title,
        "azure",
        spelled(_NAMES + _NUMBERS, _SPELLINGS),
        required,
        "azure_1_rows azure_2_mapped",
        times=("date", None, "billing_period_start", "billing_period_end"),
        numbers=_NUMBERS,
    )


FORMATS = (
    _format("an Azure cost export", "date cost meter_category resource_id"),
    _format("an Azure cost query answer", "date cost service_name"),
    _format("an Azure cost query answer", "date cost resource_id currency"),
)


CostType = Literal["AmortizedCost", "ActualCost"]
_DIMENSIONS = """
    ResourceId ResourceType ResourceLocation SubscriptionId MeterCategory MeterSubCategory Meter ChargeType PricingModel
    ReservationId
"""


@dataclass(eq=False)
class QueryTree(MonthTree):
    """One file of JSON lines per month ('2026-10'), queried when fetched. `scope` is a subscription or
    billing scope.
    """

    scope: str
    month: str
    cost_type: CostType
    management_url: str
    show_progress: Callable[[str], None]
    longest_wait: float = 120.0

    def __post_init__(self) -> None:
        self.scope, self.management_url = self.scope.strip("/"), self.management_url.rstrip("/")
        self.name = f"azure-query:/{self.scope}?type={self.cost_type}"
        self.ending = f".{self.cost_type}.jsonl"

    def fetch(self, entry: Entry, directory: Path) -> Path:
        target = directory / entry.key
        rows = 0
        with self._client() as client, target.open("w", encoding="utf-8") as out:
            page: str | None = None
            while True:
                answer = self._page(client, page)
                for row in records(answer):
                    out.write(json.dumps(row) + "\n")
                    rows += 1
                page = answer["properties"].get("nextLink")
                if not page:
                    break
                self.show_progress(f"{self.name}: {self.month}: {rows:,} rows")
        if not rows:
            raise SourceError(
                f"{self.name} has no costs in {self.month}", "check azure.cost_scope and the month"
            )
        return target

    def digest(self, entry: Entry) -> str:  # noqa: ARG002
        # Only a new query shows whether an answer changed.
        return uuid4().hex

    def _client(self) -> CostManagementClient:
        require("azure")
        from azure.mgmt.costmanagement import CostManagementClient

        options: JsonObject = {"base_url": self.management_url, "retry_total": 0}
        if is_loopback(self.management_url):
            from azure.core.pipeline.policies import SansIOHTTPPolicy

            # Tokens are only for Azure's own servers.
            return CostManagementClient(_Nobody(), authentication_policy=SansIOHTTPPolicy(), **options)
        return CostManagementClient(
            azure_login(), credential_scopes=[f"{self.management_url}/.default"], **options
        )

    def _page(self, client: CostManagementClient, link: str | None) -> JsonObject:
        from gpucost.http import TransientError, retry  # slow to import

        try:
            text = retry(lambda: self._read_page(client, link), attempts=8, longest_wait=self.longest_wait)
        except TransientError as error:
            raise SourceError(
                f"{self.name}: {error}", "try again later: the API answers few queries per minute"
            ) from None
        if not text:
            return {"properties": {"columns": [], "rows": []}}
        try:
            answer = inputs.parse_json(text, parse_float=str)
        except ValueError:
            answer = None
        if not is_answer(answer):
            raise SourceError(f"{self.name} did not return a cost query answer", "check azure.management_url")
        return answer

    def _read_page(self, client: CostManagementClient, link: str | None) -> str:
        from azure.core.exceptions import (
            AzureError,
            ClientAuthenticationError,
            HttpResponseError,
            ServiceRequestError,
            ServiceResponseError,
        )
        from azure.core.rest import HttpRequest

        from gpucost.http import PASSING, TransientError, retry_after

        body = self._definition()
        with azure_in_words(self.name):
            try:
                if link is None:
                    answer = client.query.usage(
                        self.scope, body, cls=lambda got, *_: got.http_response.text()
                    )  # type: ignore[call-overload]
                    return str(answer)
                # The answer's next link, with the same body; never to another host.
                if not link.startswith(self.management_url + "/"):
                    raise SourceError(
                        f"{self.name}: the next page is on another server", "check azure.management_url"
                    )
                response = client.send_request(HttpRequest("POST", link, json=body))
                if response.status_code != 200:
                    raise (ClientAuthenticationError if response.status_code == 401 else HttpResponseError)(
                        response=response
                    )
                return response.text()
            except AzureError as error:
                status = getattr(error, "status_code", None)
                if status in PASSING:
                    headers = getattr(getattr(error, "response", None), "headers", None) or {}
                    wait = retry_after(headers)
                    raise TransientError(f"throttled or failing repeatedly: HTTP {status}", wait) from None
                if isinstance(error, ServiceRequestError | ServiceResponseError):
                    raise TransientError(f"no answer: {line(error)}") from None
                raise

    def _definition(self) -> JsonObject:
        month = self.month
        last = monthrange(int(month[:4]), int(month[5:]))[1]
        return {
            "type": self.cost_type,
            "timeframe": "Custom",
            "timePeriod": {"from": f"{month}-01T00:00:00Z", "to": f"{month}-{last}T23:59:59Z"},
            "dataset": {
                "granularity": "Daily",
                "aggregation": {
                    "totalCost": {"name": "Cost", "function": "Sum"},
                    "totalQuantity": {"name": "UsageQuantity", "function": "Sum"},
                },
                "grouping": [{"type": "Dimension", "name": name} for name in _DIMENSIONS.split()],
            },
        }


class _Nobody:
    """A credential for servers without authentication: the client requires one, but its policy never uses it."""

    def get_token(self, *_scopes: str, **_options: object) -> Any:
        raise NotImplementedError("servers on loopback do not authenticate")
