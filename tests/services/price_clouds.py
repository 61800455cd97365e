"""Clouds on loopback with the real wire formats of their price lists, for the real client libraries.

This file has Google's catalog of SKUs and Azure's retail prices; AWS is in price_clouds_aws.py.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import AbstractContextManager, contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

from gpucost.collect.prices import PriceResult, collect_prices
from gpucost.config.model import Config
from gpucost.store.connection import Store
from tests import loopback, text_tables
from tests.loopback import Quiet

NOW = datetime(2026, 11, 21, 10, 30, tzinfo=UTC)
PAGE = 2  # facts per page: everything is paged
# An answer instead of the usual one: status, body, headers. `cut` sends less than the declared length.
Trick = Callable[[str, int], "Reply | None"]


@dataclass
class Reply:
    status: Any
    body: Any
    headers: dict[str, str] = field(default_factory=dict)
    cut: int = 0


@dataclass
class Cloud:
    """The data of a stand-in, its received requests, and its replies instead of answers."""

    url: str = ""
    facts: dict[str, list[Any]] = field(default_factory=dict)
    questions: list[tuple[str, Any]] = field(default_factory=list)
    trick: Trick = lambda _service, _number: None

    def count(self, service: str) -> int:
        return sum(name == service for name, _ in self.questions)


def collected(provider: str, config: Config, store: Store, *regions: str, now: datetime = NOW) -> PriceResult:
    """Return the result of collecting one provider's prices."""
    (result,) = collect_prices(config, store, [provider], regions, now, lambda _: None)
    return result


def rows(store: Store, sql: str) -> list[tuple[Any, ...]]:
    return store.query(sql)[1]


def shown(store: Store, columns: str, table: str = "list_prices") -> list[list[str]]:
    """Return sorted rows with each cell as a word: numbers without trailing zeros, - for an empty text."""
    found = rows(store, f"FROM {table} SELECT {columns} ORDER BY ALL")
    return [
        [f"{cell.normalize():f}" if isinstance(cell, Decimal) else str(cell) or "-" for cell in row]
        for row in found
    ]


def word_rows(table: str) -> list[list[str]]:
    return [line.split() for line in table.strip().splitlines()]


def check_failure(result: PriceResult, message: str) -> None:
    """Check for one line that begins like this, and a fix."""
    assert result.error is not None and result.error.message.startswith(message), result.error
    assert "\n" not in result.error.message and result.error.fix


class Handler(Quiet):
    protocol_version = "HTTP/1.1"
    disable_nagle_algorithm = True
    cloud: Cloud

    def reply(self, reply: Reply) -> None:
        self.respond(reply.status, reply.body, reply.headers, missing=reply.cut)

    def tricked(self, service: str, question: Any) -> bool:
        self.cloud.questions.append((service, question))
        reply = self.cloud.trick(service, self.cloud.count(service))
        if reply is not None:
            self.reply(reply)
        return reply is not None


def serving(handler: type[Handler], cloud: Cloud, **more: Any) -> AbstractContextManager[str]:
    return loopback.serving(type("Bound", (handler,), {"cloud": cloud, **more}))


def page_of(items: list[Any], token: str | None) -> tuple[list[Any], str | None]:
    start = int(token or 0)
    return items[start : start + PAGE], str(start + PAGE) if start + PAGE < len(items) else None


class _AzureHandler(Handler):
    def do_GET(self) -> None:  # noqa: N802
        question = {key: values[0] for key, values in parse_qs(urlsplit(self.path).query).items()}
        if self.tricked("retail", question):
            return
        condition = question["$filter"]
        assert "serviceName eq 'Virtual Machines'" in condition
        region = re.search(r"armRegionName eq '(\w+)'", condition)
        prefix = re.search(r"startswith\(armSkuName, '(\w+)'\)", condition)
        currency = question["currencyCode"]
        items = [
            item | {"currencyCode": currency}
            for item in self.cloud.facts["items"]
            if (not region or item["armRegionName"] == region[1])
            and (not prefix or item["armSkuName"].startswith(prefix[1]))
        ]
        page, more = page_of(items, question.get("$skip"))
        link = f"{self.cloud.url}?{urlencode({**question, '$skip': more})}" if more else None
        answer = {"BillingCurrency": currency, "Items": page, "NextPageLink": link, "Count": len(page)}
        self.reply(Reply(200, answer))


@contextmanager
def azure_cloud(items: list[Any]) -> Iterator[Cloud]:
    """Serve Azure's retail prices at `[azure] retail_prices_url`."""
    cloud = Cloud(facts={"items": items})
    with serving(_AzureHandler, cloud) as base:
        cloud.url = f"{base}/api/retail/prices"
        yield cloud


def azure_item(name: str, region: str, price: float | str, **about: Any) -> Any:
    """Return an item of the retail prices."""
    size = name.removeprefix("Standard_").replace("_", " ")
    item = json.loads(f"""{{
        "currencyCode": "USD", "tierMinimumUnits": 0.0, "retailPrice": {price}, "unitPrice": {price}, "armRegionName": "{region}",
        "location": "{region}", "effectiveStartDate": "2026-09-01T00:00:00Z", "meterId": "000a794b-bdb0-58be-a0cd-0c3a0f222923",
        "meterName": "{size}", "productId": "DZH318Z0BQPS", "skuId": "DZH318Z0BQPS/00TG",
        "productName": "Virtual Machines {size} Series", "skuName": "{size}", "serviceName": "Virtual Machines",
        "serviceId": "DZH313Z7MMC8", "serviceFamily": "Compute", "unitOfMeasure": "1 Hour", "type": "Consumption",
        "isPrimaryMeterRegion": true, "armSkuName": "{name}"
    }}""")
    return item | about


def azure_items(table: str) -> list[Any]:
    """Return items by machine, region, price and other fields."""
    rows = text_tables.text_rows(table)
    return [azure_item(name, region, price, **text_tables.words(more)) for name, region, price, more in rows]


@contextmanager
def gcp_cloud(skus: list[Any]) -> Iterator[Cloud]:
    """Serve google.cloud.billing.v1.CloudCatalog over gRPC at `[gcp] endpoint`.

    A trick's status is a grpc.StatusCode, its body the details.
    """
    import grpc
    from google.cloud.billing_v1.types import ListSkusRequest, ListSkusResponse

    cloud = Cloud(facts={"skus": skus})

    def list_skus(question: ListSkusRequest, context: Any) -> ListSkusResponse:
        cloud.questions.append(("skus", question))
        assert question.parent == "services/6F81-5844-456A"
        if reply := cloud.trick("skus", cloud.count("skus")):
            context.abort(reply.status, reply.body)
        page, more = page_of(cloud.facts["skus"], question.page_token or None)
        return ListSkusResponse(skus=page, next_page_token=more or "")

    method = grpc.unary_unary_rpc_method_handler(
        list_skus,
        request_deserializer=ListSkusRequest.deserialize,
        response_serializer=ListSkusResponse.serialize,
    )
    server = grpc.server(ThreadPoolExecutor(max_workers=2))
    server.add_generic_rpc_handlers(
        (grpc.method_handlers_generic_handler("google.cloud.billing.v1.CloudCatalog", {"ListSkus": method}),)
    )
    cloud.url = f"127.0.0.1:{server.add_insecure_port('127.0.0.1:0')}"
    server.start()
    try:
        yield cloud
    finally:
        server.stop(None).wait()


def gcp_skus(table: str) -> list[Any]:
    """Return SKUs by price, group, usage and description."""
    return [
        gcp_sku(text, group, price, usage=usage) for price, group, usage, text in text_tables.text_rows(table)
    ]


def gcp_sku(
    description: str,
    group: str,
    price: str,
    *,
    usage: str = "OnDemand",
    unit: str = "",
    regions: tuple[str, ...] = ("us-central1", "us-east1"),
    tiers: tuple[tuple[float, str], ...] = (),
) -> Any:
    """Return a SKU of Compute Engine; `tiers` are (from, price) instead of one price."""

    def tier(start: float, text: str) -> dict[str, Any]:
        whole, nanos = divmod(int(Decimal(text) * 1_000_000_000), 1_000_000_000)
        unit_price = {"currency_code": "USD", "units": whole, "nanos": nanos}
        return {"start_usage_amount": start, "unit_price": unit_price}

    units = {"RAM": "GiBy.h", "LocalSSD": "GiBy.mo"}
    rates = [tier(*of) for of in tiers or ((0, price),)]
    expression = {"usage_unit": unit or units.get(group, "h"), "tiered_rates": rates}
    effective = {"effective_time": datetime(2026, 11, 20, 8, tzinfo=UTC), "pricing_expression": expression}
    family = "Storage" if group == "LocalSSD" else "Compute"
    category = text_tables.words(f"""
        service_display_name="Compute Engine" resource_family={family} resource_group={group} usage_type={usage}""")
    return {
        "sku_id": "0000-0000-0000", "description": description, "category": category, "service_regions": list(regions),
        "pricing_info": [effective],
    }  # fmt: skip
