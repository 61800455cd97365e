"""Price lists that need no login, from a stand-in that serves them in the formats of AWS, Oracle, RunPod and Vast.ai."""

from __future__ import annotations

import csv
import io
import json
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpucost.collect.prices import PriceResult, public
from gpucost.config.model import Aws, Config, PriceLists
from gpucost.store.connection import Store
from tests.services.price_clouds import (
    NOW,
    Cloud,
    Handler,
    Reply,
    check_failure,
    collected,
    rows,
    serving,
    shown,
    word_rows,
)
from tests.text_tables import named_rows, text_rows, words

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


EAST = "us-east-1"
OFFERS = offers("""
p5.48xlarge | us-east-1 | 55.0400000000 |
p5.48xlarge | us-east-1 | 60.0000000000 | "Operating System"=RHEL
p5.48xlarge | us-east-1 | 61.0000000000 | Tenancy=Dedicated
p5.48xlarge | us-east-1 | 62.0000000000 | "Pre Installed S/W"="SQL Std"
p5.48xlarge | us-east-1 | 63.0000000000 | CapacityStatus=UnusedCapacityReservation
p5.48xlarge | us-east-1 | 0.0000000000  | MarketOption=CapacityBlock
p5.48xlarge | us-east-1 | 39.0000000000 | TermType=Reserved LeaseContractLength=1yr PurchaseOption="No Upfront" OfferingClass=standard OfferTermCode=1N RateCode=SKU-p5.48xlarge.1N.6YS6EN2CT7
p5.48xlarge | us-east-1 | 10.0000000000 | TermType=Reserved LeaseContractLength=3yr PurchaseOption="Partial Upfront" OfferingClass=standard OfferTermCode=3P RateCode=SKU-p5.48xlarge.3P.6YS6EN2CT7
p5.48xlarge | us-east-1 | 262800        | TermType=Reserved LeaseContractLength=3yr PurchaseOption="Partial Upfront" OfferingClass=standard OfferTermCode=3P RateCode=SKU-p5.48xlarge.3P.2TG2D8R56U Unit=Quantity PriceDescription="Upfront Fee"
m7i.large   | us-east-1 | 0.1008000000  |
            | us-east-1 | 0.09          | Unit=GB "Product Family"="Data Transfer"
""")  # noqa: E501
PLANS = plans("""
p5.48xlarge | us-east-1       | 44.1 |
p5.48xlarge | us-east-1       | 41.2 | years=3 payment="All Upfront" "Product Family"=EC2InstanceSavingsPlans
p5.48xlarge | us-east-1       | 9.9  | DiscountedUsageType=UnusedBox:p5.48xlarge
p5.48xlarge | us-east-1       | 9.8  | DiscountedOperation=RunInstances:0010
p5.48xlarge | us-east-1       | 9.7  | DiscountedUsageType=DedicatedUsage:p5.48xlarge
p5.48xlarge | us-east-1-atl-2 | 50   | DiscountedUsageType=ATL2-BoxUsage:p5.48xlarge
m7i.large   | us-east-1       | 0.07 |
            | us-east-1       | 0.01 | DiscountedServiceCode=AWSLambda DiscountedUsageType=Lambda-GB-Second
""")
#: Oracle: name, GPUs, part, and what else the list says of it.
SHAPES = [
    oci_shape(*row, **json.loads(more))
    for *row, more in text_rows("""
BM.GPU.H100.8           | 8    | B98415  | {}
BM.GPU.GB200.4 (NVL72)  | 4    | B110979 | {}
VM.GPU3.1               | 1    | B89734  | {"allowPreemptible": true}
BM.GPU.MI455X.8         | 8    | B999999 | {"bundleMemoryQty": null}
BM.GPU.OLD.8            | 8    | B98415  | {"hidden": true}
BM.GPU.FREE.8           | 8    | B0      | {}
BM.Standard.E4.128      | null | B93113  | {"gpuMemoryQty": null, "subType": {"value": "standard"}}
""")
]
PRODUCTS = [
    oci_product(part, float(price), kind)
    for part, price, kind in text_rows("""
B98415  | 10    | HOUR
B110979 | 16    | HOUR
B89734  | 2.95  | HOUR
B999999 | 9     | HOUR
B93113  | 0.025 | HOUR
B0      | 100   | MONTH
""")
]
#: RunPod: id, name, memory in GB, secure and community price.
GPUS = """
NVIDIA H100 80GB HBM3  | H100 SXM  | 80  | 3.49 | 2.69
NVIDIA A100 80GB PCIe  | A100 PCIe | 80  | 1.59 | 1.19
AMD Instinct MI300X OAM | MI300X   | 192 | 2.19 | null
unknown                | unknown   | 0   | 0    | 0
"""
#: Vast.ai: name, memory in MB, number of GPUs, price and least bid of an offer.
OFFERED = """
H100 SXM  | 81559 | 1 | 2.0  | 1.0
H100 SXM  | 81559 | 1 | 2.2  | null
H100 SXM  | 81559 | 1 | 9.0  | 3.0
A100 PCIE | 40960 | 1 | 0.5  | 0.25
H100 SXM  | 81559 | 8 | 16.0 | 8.0
"""


def listed(table: str, *names: str) -> list[dict[str, Any]]:
    """Rows as JSON: each word that is no number or null is a text."""
    quoted = [
        [cell if cell == "null" or cell[0].isdigit() else f'"{cell}"' for cell in row]
        for row in text_rows(table)
    ]
    return [dict(zip(names, map(json.loads, row), strict=True)) for row in quoted]


RUNPOD = listed(GPUS, "id", "displayName", "memoryInGb", "securePrice", "communityPrice")
VAST = listed(OFFERED, "gpu_name", "gpu_ram", "num_gpus", "dph_base", "min_bid")
FILES = {
    **aws_bulk(EAST, OFFERS, PLANS),
    "/oci/shapes.json": {"items": SHAPES},
    "/oci/products.json": {"items": PRODUCTS},
    "/graphql": {"data": {"gpuTypes": RUNPOD}},
    "/bundles/": {"offers": VAST},
}


@pytest.fixture
def cloud(nobody: None, monkeypatch: pytest.MonkeyPatch) -> Iterator[Cloud]:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    with price_lists(FILES) as running:
        yield running


def collect(
    cloud: Cloud, store: Store, provider: str, *, currency: str = "USD", now: datetime = NOW
) -> PriceResult:
    lists = PriceLists(oci=f"{cloud.url}/oci", runpod=f"{cloud.url}/graphql", vast=f"{cloud.url}/bundles/")
    config = Config(aws=Aws(price_list_url=cloud.url), price_lists=lists, currency=currency)
    return collected(provider, config, store, now=now)


def test_aws_without_a_login(cloud: Cloud, store: Store) -> None:
    result = collect(cloud, store, "aws")
    assert result.prices, result.error
    columns = "instance_type, purchase_option, term_years, payment_option, offering, price_per_hour"
    assert shown(store, columns) == word_rows("""
        p5.48xlarge on_demand    0 -               -            55.04
        p5.48xlarge reserved     1 no_upfront      standard     39
        p5.48xlarge reserved     3 partial_upfront standard     20
        p5.48xlarge savings_plan 1 no_upfront      compute      44.1
        p5.48xlarge savings_plan 3 all_upfront     ec2_instance 41.2
    """)
    sources = word_rows("aws bulk price list\naws bulk savings plans")
    assert [row[0].split() for row in shown(store, "DISTINCT source")] == sources
    assert not any(question for _, question in cloud.questions)


def test_oci_has_one_price_everywhere(cloud: Cloud, store: Store) -> None:
    assert collect(cloud, store, "oci").prices
    assert shown(store, "region, instance_type, purchase_option, price_per_hour") == word_rows("""
        - BM.GPU.GB200.4  on_demand 64
        - BM.GPU.H100.8   on_demand 80
        - BM.GPU.MI455X.8 on_demand 72
        - VM.GPU3.1       on_demand 2.95
        - VM.GPU3.1       spot      1.475
    """)
    assert shown(store, "instance_type, gpu_model, gpu_count", "instance_types") == word_rows("""
        BM.GPU.GB200.4  GB200          4.0
        BM.GPU.H100.8   H100-80GB-HBM3 8.0
        BM.GPU.MI455X.8 MI455X         8.0
        VM.GPU3.1       V100-SXM2-16GB 1.0
    """)
    assert collect(cloud, store, "oci", currency="EUR", now=NOW.replace(day=22)).prices
    in_euros = (
        "SELECT price_per_hour FROM list_prices WHERE currency = 'EUR' AND instance_type = 'BM.GPU.H100.8'"
    )
    assert rows(store, in_euros) == [(Decimal(40),)]


def test_gpu_clouds_price_a_gpu(cloud: Cloud, store: Store) -> None:
    assert collect(cloud, store, "runpod").prices and collect(cloud, store, "vast").prices
    assert shown(store, "provider, instance_type, purchase_option, price_per_hour") == word_rows("""
        runpod 1x_A100-80GB-PCIe_COMMUNITY on_demand 1.19
        runpod 1x_A100-80GB-PCIe_SECURE    on_demand 1.59
        runpod 1x_H100-SXM_COMMUNITY       on_demand 2.69
        runpod 1x_H100-SXM_SECURE          on_demand 3.49
        runpod 1x_MI300X_SECURE            on_demand 2.19
        vast   1x_A100-PCIE-40GB           on_demand 0.5
        vast   1x_A100-PCIE-40GB           spot      0.25
        vast   1x_H100-SXM                 on_demand 2.2
        vast   1x_H100-SXM                 spot      2
    """)
    assert rows(store, "SELECT DISTINCT gpu_model FROM instance_types WHERE instance_type LIKE '%H100%'") == [
        ("H100-80GB-HBM3",)
    ]


FAILURES = """
no list | aws | 200 | 0 | "FormatVersion","v1.0" | aws: half an answer, cut off or no answer of the bulk price list
broken | aws | 200 | 1000 | "SKU","Unit" | aws: half an answer, the connection broke off
not found | aws | 404 | 0 | <Error/> | aws: the bulk price list answered HTTP 404
no shape | oci | 200 | 0 | {"items": []} | oci: there are no prices of GPU shapes in USD
unlike | runpod | 200 | 0 | {"data": {"gpuTypes": [{"id": "x"}]}} | runpod: the answer cannot be read: KeyError
no offer | vast | 200 | 0 | {"offers": []} | vast: half an answer: items are missing
"""


@pytest.mark.parametrize(("provider", "status", "missing", "body", "message"), named_rows(FAILURES))
def test_a_failure_is_one_line_and_nothing_is_written(
    cloud: Cloud, store: Store, provider: str, status: str, missing: str, body: str, message: str
) -> None:
    cloud.trick = lambda _path, _number: Reply(int(status), f"{body}\n".encode(), cut=int(missing))
    check_failure(collect(cloud, store, provider), message)
    assert not store.exists


def test_a_list_without_end_is_left(cloud: Cloud, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(public, "_CSV_BYTES", 100)
    check_failure(collect(cloud, store, "aws"), f"aws: {cloud.url} answers with more than 0 MiB")
