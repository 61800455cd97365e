"""Price lists without login, from a stand-in with the formats of Oracle, RunPod and Vast.ai."""

from __future__ import annotations

import json
from collections.abc import Iterator
from contextlib import contextmanager
from datetime import datetime
from decimal import Decimal
from typing import Any
from urllib.parse import urlsplit

import pytest

from gpucost.collect.prices import PriceResult, base
from gpucost.config.model import Config, PriceLists
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
from tests.text_tables import named_rows, text_rows


class _FileHandler(Handler):
    def do_POST(self) -> None:  # noqa: N802 - the name that http.server looks for
        path, question = urlsplit(self.path).path, json.loads(self.received() or "null")
        if not self.tricked(path, question):
            (body,) = self.cloud.facts.get(path, [b""])
            self.reply(Reply(200, body) if body else Reply(404, b"<Error><Code>NoSuchKey</Code></Error>"))

    do_GET = do_POST  # noqa: N815


@contextmanager
def price_lists(files: dict[str, Any]) -> Iterator[Cloud]:
    """Serve `files` by path: bytes unchanged, anything else as JSON."""
    cloud = Cloud(facts={path: [body] for path, body in files.items()})
    with serving(_FileHandler, cloud) as cloud.url:
        yield cloud


def oci_shape(name: str, gpus: str, part: str, **about: Any) -> dict[str, Any]:
    """Return a shape of shapes.json."""
    shape = json.loads(f"""{{
        "name": "{name}", "hidden": false, "status": "ACTIVE", "allowPreemptible": false, "bundleMemoryQty": 2048,
        "gpuQty": {gpus}, "gpuMemoryQty": 640, "processorType": {{"value": "hopper"}},
        "shapeType": {{"value": "{name[:2].lower()}"}}, "subType": {{"value": "gpu"}},
        "products": [{{"partNumber": "{part}", "qty": 112, "type": {{"value": "ocpu"}}}}]
    }}""")
    return {**shape, **about}


def oci_product(part: str, price: float, kind: str) -> dict[str, Any]:
    """Return a product of products.json; its first units are free."""
    local = [
        {"currencyCode": code, "prices": [{"model": "PAY_AS_YOU_GO", "value": tier} for tier in (0, value)]}
        for code, value in (("EUR", price * 0.5), ("USD", price))
    ]
    return {"partNumber": part, "billingModel": "UCM", "pricetype": kind, "currencyCodeLocalizations": local}


#: Oracle: name, GPUs, part, and other fields of the list.
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
#: Vast.ai: name, memory in MB, number of GPUs, price and minimum bid of an offer.
OFFERED = """
H100 SXM  | 81559 | 1 | 2.0  | 1.0
H100 SXM  | 81559 | 1 | 2.2  | null
H100 SXM  | 81559 | 1 | 9.0  | 3.0
A100 PCIE | 40960 | 1 | 0.5  | 0.25
H100 SXM  | 81559 | 8 | 16.0 | 8.0
"""


def listed(table: str, *names: str) -> list[dict[str, Any]]:
    """Return rows as JSON: words other than numbers and null are texts."""
    quoted = [
        [cell if cell == "null" or cell[0].isdigit() else f'"{cell}"' for cell in row]
        for row in text_rows(table)
    ]
    return [dict(zip(names, map(json.loads, row), strict=True)) for row in quoted]


RUNPOD = listed(GPUS, "id", "displayName", "memoryInGb", "securePrice", "communityPrice")
VAST = listed(OFFERED, "gpu_name", "gpu_ram", "num_gpus", "dph_base", "min_bid")
FILES = {
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
    config = Config(price_lists=lists, currency=currency)
    return collected(provider, config, store, now=now)


def test_oci_prices_are_equal_in_all_regions(cloud: Cloud, store: Store) -> None:
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
no list | oci | 200 | 0 | "FormatVersion","v1.0" | oci: the cost estimator's list did not answer with the expected JSON
broken | oci | 200 | 1000 | {"items": | oci: the cost estimator's list cannot be reached: the connection failed
not found | oci | 404 | 0 | <Error/> | oci: the cost estimator's list answered HTTP 404
no shape | oci | 200 | 0 | {"items": []} | oci: no prices of GPU shapes in USD
unlike | runpod | 200 | 0 | {"data": {"gpuTypes": [{"id": "x"}]}} | runpod: cannot read the answer: KeyError
no offer | vast | 200 | 0 | {"offers": []} | vast: the list of offers gave an incomplete answer
"""


@pytest.mark.parametrize(("provider", "status", "missing", "body", "message"), named_rows(FAILURES))
def test_failure_is_one_line_and_leaves_the_store_unchanged(
    cloud: Cloud, store: Store, provider: str, status: str, missing: str, body: str, message: str
) -> None:
    cloud.trick = lambda _path, _number: Reply(int(status), f"{body}\n".encode(), cut=int(missing))
    check_failure(collect(cloud, store, provider), message)
    assert not store.exists


def test_endless_list_is_an_error(cloud: Cloud, store: Store, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(base, "_JSON_BYTES", 100)
    check_failure(
        collect(cloud, store, "oci"),
        f"oci: the cost estimator's list: {cloud.url} answers with more than 0 MiB",
    )
