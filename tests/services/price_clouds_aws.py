"""AWS on loopback: EC2 by moto; price list and Savings Plans, which moto lacks, are implemented here."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from http.client import HTTPConnection
from typing import Any
from unittest.mock import patch
from urllib.parse import parse_qs, urlsplit

from tests.services.price_clouds import Cloud, Handler, Reply, page_of, serving
from tests.text_tables import text_rows, words

# Some of moto's 1,400 types: all would take seconds to write and read.
EC2_TYPES = """
g4dn.xlarge g5.xlarge g6.xlarge g6f.large g6f.4xlarge g6e.xlarge p3.2xlarge p4d.24xlarge p4de.24xlarge p5.48xlarge inf1.xlarge
inf2.xlarge trn1.2xlarge vt1.3xlarge m7i.large c7g.xlarge
"""


class _AwsHandler(Handler):
    ec2: str

    def do_POST(self) -> None:  # noqa: N802 - the name that http.server looks for
        body = self.received()
        service = re.search(r"Credential=[^/]+/\d+/[^/]+/([^/]+)/aws4_request", self.headers["Authorization"])
        assert service
        name = service[1]
        question = parse_qs(body.decode()) if name == "ec2" else json.loads(body)
        if self.tricked(name, question):
            return
        if name == "pricing":
            assert self.headers["X-Amz-Target"] == "AWSPriceListService.GetProducts"
            self.reply(Reply(200, self._products(question), {"Content-Type": "application/x-amz-json-1.1"}))
        elif name == "savingsplans":
            assert self.path == "/DescribeSavingsPlansOfferingRates"
            self.reply(Reply(200, self._rates(question)))
        else:
            self._pass_on(body)

    def _products(self, question: dict[str, Any]) -> dict[str, Any]:
        assert question["ServiceCode"] == "AmazonEC2"
        terms = {item["Field"]: item["Value"] for item in question["Filters"] if item["Type"] == "TERM_MATCH"}
        products = self.cloud.facts["products"]
        found = [item for item in products if terms.items() <= item["product"]["attributes"].items()]
        page, more = page_of(found, question.get("NextToken"))
        return {"FormatVersion": "aws_v1", "PriceList": list(map(json.dumps, page)), "NextToken": more}

    def _rates(self, question: dict[str, Any]) -> dict[str, Any]:
        def fits(rate: dict[str, Any]) -> bool:
            about = {item["name"]: item["value"] for item in rate["properties"]}
            plan = rate["savingsPlanOffering"]["planType"] in question["savingsPlanTypes"]
            return plan and all(about[item["name"]] in item["values"] for item in question["filters"])

        page, more = page_of(
            [rate for rate in self.cloud.facts["rates"] if fits(rate)], question.get("nextToken")
        )
        return {"searchResults": page, "nextToken": more or ""}

    def _pass_on(self, body: bytes) -> None:
        host = urlsplit(self.ec2)
        connection = HTTPConnection(host.hostname or "", host.port or 0)
        connection.request("POST", self.path, body, {k: v for k, v in self.headers.items() if k != "Host"})
        answer = connection.getresponse()
        self.respond(answer.status, answer.read(), {"Content-Type": answer.headers["Content-Type"]})
        connection.close()


@contextmanager
def aws_cloud(products: list[Any], rates: list[Any]) -> Iterator[Cloud]:
    """Serve AWS at one URL for all services, for `[aws] endpoint_url`."""
    from moto.ec2.models import instance_types
    from moto.server import ThreadedMotoServer

    moto = ThreadedMotoServer(ip_address="127.0.0.1", port=0, verbose=False)
    moto.start()
    cloud = Cloud(facts={"products": products, "rates": rates})
    backend = instance_types.InstanceTypeBackend
    few = [item for item in backend.instance_types if item.name in EC2_TYPES.split()]
    try:
        host, port = moto.get_host_and_port()
        handler = serving(_AwsHandler, cloud, ec2=f"http://{host}:{port}")
        with patch.object(backend, "instance_types", few), handler as cloud.url:
            yield cloud
    finally:
        moto.stop()


def aws_product(
    name: str, region: str, per_hour: str, reserved: Iterable[tuple[str, ...]] = (), **about: str
) -> Any:
    """Return a product in the format of get_products; `reserved` has (term, class, payment, upfront, per hour)."""
    sku = f"{abs(hash((name, region, tuple(about.items())))):016X}"[:16]

    def term(code: str, hourly: str, upfront: str = "", **attributes: str) -> dict[str, Any]:
        priced = {
            f"{sku}.{code}.{key}": json.loads(
                f'{{"unit": "{unit}", "rateCode": "{key}", "appliesTo": [], "pricePerUnit": {{"USD": "{price}"}}}}'
            )
            for key, unit, price in (("6YS6EN2CT7", "Hrs", hourly), ("2TG2D8R56U", "Quantity", upfront))
            if price
        }
        about = {"sku": sku, "effectiveDate": "2026-11-01T00:00:00Z", "offerTermCode": code}
        return {"priceDimensions": priced, "termAttributes": attributes, **about}

    terms = {"OnDemand": {f"{sku}.JRTCKXETXF": term("JRTCKXETXF", per_hour)}}
    for number, (length, kind, payment, upfront, hourly) in enumerate(reserved):
        bought = {"LeaseContractLength": length, "OfferingClass": kind, "PurchaseOption": payment}
        terms.setdefault("Reserved", {})[f"{sku}.R{number}"] = term(f"R{number}", hourly, upfront, **bought)
    attributes = words(f"""
        instanceType={name} regionCode={region} operatingSystem=Linux tenancy=Shared preInstalledSw=NA capacitystatus=Used
        operation=RunInstances marketoption=OnDemand""")
    product = {"productFamily": "Compute Instance", "attributes": attributes | about, "sku": sku}
    return {"product": product, "serviceCode": "AmazonEC2", "terms": terms}


def aws_products(table: str) -> list[Any]:
    """Return products by machine, region, price and other fields."""
    rows = text_rows(table)
    return [aws_product(name, region, price, (), **words(more)) for name, region, price, more in rows]


def aws_rates(table: str) -> list[Any]:
    """Return rates by machine, region, price, plan, payment, years and other fields."""
    return [
        aws_rate(*row, plan=plan, payment=payment, years=int(years), **words(more))
        for *row, plan, payment, years, more in text_rows(table)
    ]


def aws_rate(
    name: str,
    region: str,
    rate: str,
    *,
    plan: str = "Compute",
    payment: str = "No Upfront",
    years: int = 1,
    **about: str,
) -> Any:
    """Return a rate in the format of describe_savings_plans_offering_rates."""
    properties = words(f"""
        region={region} instanceType={name} instanceFamily={name.partition(".")[0]} tenancy=shared
        productDescription=Linux/UNIX""")
    offering = words(f"""
        offeringId=5c2ebf6c-1e0a-4f4b-a6a6-2d6a6a2f3d31 paymentOption="{payment}" planType={plan} currency=USD""")
    fields = words(f"""
        rate={rate} unit=Hrs productType=EC2 serviceCode=AmazonEC2 usageType=BoxUsage:{name} operation=RunInstances""")
    listed = [{"name": key, "value": value} for key, value in properties.items()]
    offered = {**offering, "durationSeconds": years * 31_536_000}
    return {**fields, "savingsPlanOffering": offered, "properties": listed, **about}
