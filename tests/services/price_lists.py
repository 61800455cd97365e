"""Public price lists on loopback, in the formats that AWS' bulk lists, Oracle's cost estimator, RunPod and Vast.ai serve."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import urlsplit

from tests.services.price_clouds import Cloud, Handler, Reply, serving
from tests.text_tables import text_rows, words

# As AWS heads its files, with the values of an hour on demand and of a Compute Savings Plan; columns of no account are left out.
_OFFER = """
SKU                | SKU-{name}
OfferTermCode      | JRTCKXETXF
RateCode           | SKU-{name}.JRTCKXETXF.6YS6EN2CT7
TermType           | OnDemand
PriceDescription   | ${price} per On Demand Linux {name} Instance Hour
EffectiveDate      | 2026-11-01
StartingRange      | 0
EndingRange        | Inf
Unit               | Hrs
PricePerUnit       | {price}
Currency           | USD
RelatedTo          |
LeaseContractLength |
PurchaseOption     |
OfferingClass      |
Product Family     | Compute Instance
serviceCode        | AmazonEC2
Location           |
Location Type      | AWS Region
Instance Type      | {name}
Tenancy            | Shared
Operating System   | Linux
License Model      | No License required
usageType          | BoxUsage:{name}
operation          | RunInstances
CapacityStatus     | Used
MarketOption       | OnDemand
Pre Installed S/W  | NA
Region Code        | {region}
serviceName        |
"""
_PLAN = """
SKU                | PLAN{years}{payment[0]}
RateCode           | PLAN{years}{payment[0]}.SKU-{name}
Unit               | Hrs
EffectiveDate      | 2026-11-01T07:36:03Z
DiscountedRate     | {price}
Currency           | USD
DiscountedSKU      | SKU-{name}
DiscountedServiceCode | AmazonEC2
DiscountedUsageType | BoxUsage:{name}
DiscountedOperation | RunInstances
PurchaseOption     | {payment}
LeaseContractLength | {years}
LeaseContractLengthUnit | year
ServiceCode        | ComputeSavingsPlans
UsageType          | ComputeSP:{years}yr{payment}
Operation          |
Description        | {years} year {payment} Compute Savings Plan
Instance Family    |
Location           | Any
Location Type      | AWS Region
Granularity        | hourly
Product Family     | ComputeSavingsPlans
DiscountedRegionCode | {region}
DiscountedInstanceType | {name}
"""
_ABOUT = """
FormatVersion    | v1.0
Disclaimer       | This pricing list is for informational purposes only.
Publication Date | 2026-11-20T16:02:58Z
Version          | 20261120160258
OfferCode        | {}
"""


class _FileHandler(Handler):
    def do_POST(self) -> None:  # noqa: N802 - the name that http.server looks for
        path, question = urlsplit(self.path).path, json.loads(self.received() or "null")
        if not self.tricked(path, question):
            (body,) = self.cloud.facts.get(path, [b""])
            self.reply(Reply(200, body) if body else Reply(404, b"<Error><Code>NoSuchKey</Code></Error>"))

    do_GET = do_POST  # noqa: N815


@contextmanager
def price_lists(files: dict[str, Any]) -> Iterator[Cloud]:
    """A server whose paths answer `files`: bytes as they are, anything else as JSON."""
    cloud = Cloud(facts={path: [body] for path, body in files.items()})
    with serving(_FileHandler, cloud) as cloud.url:
        yield cloud


def aws_bulk(
    region: str, offers: Iterable[dict[str, str]], plans: Iterable[dict[str, str]]
) -> dict[str, Any]:
    """The files of one region, as `[aws] price_list_url` names their server."""
    version = "/savingsPlan/v1.0/aws/AWSComputeSavingsPlan/20261120160258/{}/index.{}"
    regions = [
        {"regionCode": name, "versionUrl": version.format(name, "json")}
        for name in ("af-south-1", "eu-west-3", region)
    ]
    return {
        f"/offers/v1.0/aws/AmazonEC2/current/{region}/index.csv": _file("AmazonEC2", offers, quoted=True),
        "/savingsPlan/v1.0/aws/AWSComputeSavingsPlan/current/region_index.json": {
            "disclaimer": "This pricing list is for informational purposes only.",
            "publicationDate": "2026-11-20T16:02:58Z",
            "regions": regions,
        },
        version.format(region, "csv"): _file(
            "AmazonComputeSavingsPlan", plans or [plan("", "", "")], quoted=False
        ),
    }


def _row(columns: str, **facts: Any) -> dict[str, str]:
    return {name: value.format(**facts) for name, value in text_rows(columns)}


def offer(name: str, region: str, price: str, **about: str) -> dict[str, str]:
    """A row of the list of EC2: an hour on demand, unless `about` (by the names of columns) tells otherwise."""
    return _row(_OFFER, name=name, region=region, price=price) | about


def offers(table: str) -> list[dict[str, str]]:
    """Rows of that list by machine, region, price, and what else is said of them."""
    return [offer(*row, **words(more)) for *row, more in text_rows(table)]


def plans(table: str) -> list[dict[str, str]]:
    """Rows of the list of Savings Plans by machine, region, rate, and what else is said of them."""
    return [plan(*row, **words(more)) for *row, more in text_rows(table)]


def plan(
    name: str, region: str, rate: str, *, years: str = "1", payment: str = "No Upfront", **about: str
) -> dict[str, str]:
    """A row of the list of Savings Plans: a Compute Savings Plan, unless `about` tells otherwise."""
    return _row(_PLAN, name=name, region=region, price=rate, years=years, payment=payment) | about


def _file(offer_code: str, rows: Iterable[dict[str, str]], *, quoted: bool) -> bytes:
    text, listed = io.StringIO(), list(rows)
    writer = csv.writer(text, quoting=csv.QUOTE_ALL if quoted else csv.QUOTE_MINIMAL, lineterminator="\n")
    writer.writerows([*text_rows(_ABOUT.format(offer_code)), listed[0], *(row.values() for row in listed)])
    return text.getvalue().encode()


def oci_shape(name: str, gpus: str, part: str, **about: Any) -> dict[str, Any]:
    """A shape of shapes.json."""
    shape = json.loads(f"""{{
        "name": "{name}", "hidden": false, "status": "ACTIVE", "allowPreemptible": false, "bundleMemoryQty": 2048,
        "gpuQty": {gpus}, "gpuMemoryQty": 640, "processorType": {{"value": "hopper"}},
        "shapeType": {{"value": "{name[:2].lower()}"}}, "subType": {{"value": "gpu"}},
        "products": [{{"partNumber": "{part}", "qty": 112, "type": {{"value": "ocpu"}}}}]
    }}""")
    return {**shape, **about}


def oci_product(part: str, price: float, kind: str) -> dict[str, Any]:
    """A product of products.json; its first units are free."""
    local = [
        {"currencyCode": code, "prices": [{"model": "PAY_AS_YOU_GO", "value": tier} for tier in (0, value)]}
        for code, value in (("EUR", price * 0.5), ("USD", price))
    ]
    return {"partNumber": part, "billingModel": "UCM", "pricetype": kind, "currencyCodeLocalizations": local}
