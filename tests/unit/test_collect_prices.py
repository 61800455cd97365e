"""Collectors of list prices: how single facts are read, and how they enter the store."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost.collect.prices.aws import accelerated, plan_price, product_prices
from gpucost.collect.prices.azure import item_prices, without_placeholders
from gpucost.collect.prices.base import gpu_model, is_region_of, types_in_catalog, without_duplicates
from gpucost.collect.prices.gcp import PriceUnit, family_of, unit_price
from gpucost.errors import SourceError
from gpucost.store.connection import Store
from gpucost.store.prices import (
    ComponentPrice,
    InstanceType,
    ListPrice,
    ProviderPrices,
    load_prices,
    node_regions,
)
from tests.services.price_clouds import azure_item, gcp_sku
from tests.services.price_clouds_aws import aws_product, aws_rate
from tests.text_tables import text_rows

DAY = date(2026, 11, 21)
NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)


#: SKUs of Google: description, group and usage; then the priced part, family or model, purchase option and
#: years.
SKUS = """
A2 Instance Core running in Americas                                       | CPU OnDemand cpu a2 on_demand 0
A3Plus Instance Ram running in Tokyo                                       | RAM OnDemand memory_gib a3plus on_demand 0
A3Ultra Instance Core running in Iowa                                      | CPU OnDemand cpu a3ultra on_demand 0
Spot Preemptible G2 Instance Core running in Las Vegas                     | CPU Preemptible cpu g2 spot 0
Commitment v1: A2 Cpu in Americas for 1 Year                               | CPU Commit1Yr cpu a2 cud 1
Commitment v1: G2 Ram in Tokyo for 3 Years                                 | RAM Commit3Yr memory_gib g2 cud 3
Commitment v1: Cpu in Americas for 3 Years                                 | CPU Commit3Yr cpu n1 cud 3
N1 Predefined Instance Ram running in Americas                             | N1Standard OnDemand memory_gib n1 on_demand 0
Nvidia Tesla A100 GPU running in Americas                                  | GPU OnDemand gpu A100-SXM4-40GB on_demand 0
Nvidia Tesla A100 80GB GPU running in Netherlands                          | GPU OnDemand gpu A100-SXM4-80GB on_demand 0
Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Tokyo      | GPU Preemptible gpu T4 spot 0
Nvidia Tesla V100 GPU running in Taiwan                                    | GPU OnDemand gpu V100-SXM2-16GB on_demand 0
Nvidia L4 GPU running in Virginia                                          | GPU OnDemand gpu L4 on_demand 0
H200 141GB GPU running in Americas                                         | GPU OnDemand gpu H200 on_demand 0
RTX 6000 96GB running in Iowa                                              | GPU OnDemand gpu RTX-PRO-6000 on_demand 0
Nvidia H100 80GB GPU running in Americas                                   | GPU OnDemand gpu H100-80GB-HBM3 on_demand 0
Nvidia H100 80GB Mega GPU running in Americas                              | GPU OnDemand gpu H100-80GB-HBM3-Mega on_demand 0
Nvidia H100 80GB Plus GPU running in Americas                              | GPU OnDemand gpu H100-80GB-HBM3-Mega on_demand 0
Commitment v1: Nvidia H100 80GB GPU in Iowa for 3 Year                     | GPU Commit3Yr gpu H100-80GB-HBM3 cud 3
A4 Nvidia B200 (1 gpu slice) running in Americas                           | GPU OnDemand gpu B200 on_demand 0
Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas          | GPU OnDemand gpu B200 spot 0
SSD backed Local Storage                                                   | LocalSSD OnDemand local_ssd_gib - on_demand 0
SSD backed Local Storage in Bangkok                                        | LocalSSD OnDemand local_ssd_gib - on_demand 0
SSD backed Local Storage attached to Spot Preemptible VMs running in Paris | LocalSSD OnDemand local_ssd_gib - spot 0
Commitment v1: Local SSD in Iowa for 1 Year                                | LocalSSD Commit1Yr local_ssd_gib - cud 1
Commitment v1: C4D Local SSD in Americas for 3 Year                        | LocalSSD Commit3Yr -
A2 Custom Instance Core running in Americas                                | CPU OnDemand -
A2 Sole Tenancy Instance Core running in Americas                          | CPU OnDemand -
Reserved A2 Ram in Netherlands                                             | RAM OnDemand -
Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode            | GPU OnDemand -
Nvidia L4 GPU attached to DWS Defined Duration VMs running in Frankfurt    | GPU OnDemand -
Commitment v1: N4A Core in Johannesburg for 5 Years                        | CPU Commit -
VM state: preserved local SSD in Bangkok                                   | LocalSSD OnDemand -
Committed Use Discount Premium for E2 Instance Core running in Iowa        | CPU CmtCudPremium -"""


def priced(sku: dict[str, Any]) -> Any:
    from google.cloud.billing_v1.types import Sku  # slow to import

    return unit_price(Sku(sku))


@pytest.mark.parametrize("row", SKUS.strip().splitlines())
def test_google_sku_has_its_part_and_purchase_option(row: str) -> None:
    description, cells = row.split("|")
    group, usage, expected = cells.split(maxsplit=2)
    measure = "GiBy.h" if " Ram " in description else ""
    price = priced(gcp_sku(description.strip(), group, "0.5", usage=usage, unit=measure))
    unit = price and price.unit
    assert expected == (
        f"{unit.part} {unit.owner or '-'} {unit.purchase_option} {unit.term_years}" if unit else "-"
    )


def test_units_tiers_and_free_skus_of_google() -> None:
    def price(group: str = "CPU", **about: Any) -> Decimal | None:
        words = "SSD backed Local Storage" if group == "LocalSSD" else "A2 Instance Core running in Iowa"
        price = priced(gcp_sku(words, group, about.pop("price", "0.73"), **about))
        return price.price_per_hour if price else None

    assert price(price="12.000000001") == Decimal("12.000000001")
    assert price("LocalSSD") == Decimal("0.001")  # per month
    assert price("LocalSSD", unit="GiBy.h") == Decimal("0.73")
    assert price(tiers=((100, "0.1"), (0, "0.2"))) == Decimal("0.2")
    assert price(tiers=((100, "0.1"),)) is price(price="0") is price(unit="GiBy") is None


@pytest.mark.parametrize("order", [1, -1])
def test_newest_of_several_prices_of_a_google_sku_is_used(order: int) -> None:
    newer, older = (
        gcp_sku("Nvidia Tesla T4 GPU running in Americas", "GPU", price) for price in ("0.5", "0.9")
    )
    (info,) = older["pricing_info"]
    info["effective_time"] = datetime(2025, 1, 1, tzinfo=UTC)
    newer["pricing_info"] = [*newer["pricing_info"], info][::order]
    price = priced(newer)
    assert price and (price.price_per_hour, price.effective_start) == (Decimal("0.5"), date(2026, 11, 20))


REGIONS = {
    "aws": "us-east-1 us-gov-west-1 ap-southeast-7",
    "gcp": "us-central1 africa-south1 northamerica-northeast1",
    "azure": "eastus westus3 germanywestcentral",
}


def test_names_of_families_components_regions_and_machines() -> None:
    names = ("a3-megagpu-8g", "a3-ultragpu-8g", "a3-highgpu-1g", "g2-standard-4")
    assert [family_of(name) for name in names] == ["a3plus", "a3ultra", "a3", "g2"]
    assert PriceUnit("memory_gib", "a2").component == "a2/memory_gib"
    assert PriceUnit("gpu", "L4").component == "gpu/L4"
    assert PriceUnit("local_ssd_gib", "").component == "local_ssd_gib"
    for owner, regions in REGIONS.items():
        for region in regions.split():
            assert [name for name in REGIONS if is_region_of(name, region)] == [owner], region
    ultra = types_in_catalog("gcp")["a2-ultragpu-2g"]
    assert (ultra.gpu_model, ultra.gpu_count, ultra.vcpus) == ("A100-SXM4-80GB", 2, 24)
    assert (ultra.memory_gib, ultra.local_ssd_gib) == (340, 750)
    assert gpu_model("unheard of", "NVIDIA H100 80GB HBM3") == "H100-80GB-HBM3"


#: Accelerators in EC2's answers: type; name, MiB and count; logical count and partition size, if any; the
#: expected model and count.
EC2 = """
    g6f.large   | L4                  |  2861 | 0 | 1 0.125 | L4             | 0.125
    g6f.4xlarge | L4                  |  2861 | 0 |         | L4             | 0.5
    g99f.large  | L4                  |  5722 | 0 |         | L4             | 0.25
    x99.xlarge  | A100                | 40960 | 1 |         | A100-SXM4-40GB | 1
    x99.xlarge  | A100                | 81920 | 1 |         | A100-SXM4-80GB | 1
    x99.xlarge  | V100                | 32768 | 1 |         | V100-SXM2-32GB | 1
    x99.xlarge  | RTX PRO Server 6000 | 98304 | 1 |         | RTX-PRO-6000   | 1
    x99.xlarge  | Gaudi HL-205        | 32768 | 1 |         | Gaudi          | 1
    x99.xlarge  | Trainium2           | 98304 | 1 |         | Trainium2      | 1
    x99.xlarge  | Inferentia          |  8192 | 1 |         | Inferentia     | 1
    x99.xlarge  | Z 9000              |   999 | 1 |         | Z-9000         | 1"""
LISTS = {
    "Trainium2": ("NeuronInfo", "NeuronDevices"),
    "Inferentia": ("InferenceAcceleratorInfo", "Accelerators"),
}


@pytest.mark.parametrize("row", text_rows(EC2), ids="|".join)
def test_ec2_accelerators_have_their_model_and_count(row: tuple[str, ...]) -> None:
    """The count comes from the partition size, then the catalog, then the part of a known model's memory."""
    kind, name, memory, count, part, model, expected = row
    device: dict[str, Any] = {"Name": name, "Count": int(count), "MemoryInfo": {"SizeInMiB": int(memory)}}
    if part:
        logical, size = part.split()
        device |= {"LogicalGpuCount": int(logical), "GpuPartitionSize": float(size)}
    info, devices = LISTS.get(name, ("GpuInfo", "Gpus"))
    size = {"VCpuInfo": {"DefaultVCpus": 4}, "MemoryInfo": {"SizeInMiB": 16384}}
    found = accelerated({"InstanceType": kind, **size, info: {devices: [device]}})
    assert found is not None
    assert (found.gpu_model, found.gpu_count, found.gpu_memory_mib) == (model, float(expected), int(memory))


def test_upfront_payments_are_spread_over_the_term_and_plans_have_rates() -> None:
    assert accelerated({"InstanceType": "m7i.large", "MemoryInfo": {"SizeInMiB": 8192}}) is None
    terms = [
        ("3yr", "standard", "Partial Upfront", "262800", "10.5"),
        ("1yr", "standard", "All Upfront", "8760", "0"),
    ]
    sold = aws_product("p5.48xlarge", "us-east-1", "55.04", terms)
    flat = {"FlatRate": {"x": {"effectiveDate": "2026-01-01T00:00:00Z"}}}
    product = json.dumps(sold | {"terms": sold["terms"] | flat})

    def found(kind: str = "p5.48xlarge", day: date = DAY) -> dict[int, Decimal]:
        prices = product_prices(product, "us-east-1", {kind}, day)
        return {price.term_years: price.price_per_hour for price in prices}

    assert found() == {0: Decimal("55.04"), 3: Decimal("20.5"), 1: Decimal(1)}
    assert (
        found("p4d.24xlarge") == found(day=date(2026, 10, 31)) == {}
    )  # another type, and a term that begins later
    rate = aws_rate("g5.xlarge", "us-east-1", "0.7", plan="EC2Instance", payment="All Upfront", years=3)
    price = plan_price(rate, {"g5.xlarge"})
    assert price and (price.term_years, price.payment_option, price.offering) == (
        3,
        "all_upfront",
        "ec2_instance",
    )
    assert plan_price(aws_rate("g5.xlarge", "us-east-1", "0.7", plan="SageMaker"), {"g5.xlarge"}) is None
    with pytest.raises(SourceError, match="cannot read"):
        plan_price({"rate": "1"}, {"g5.xlarge"})


ATTRIBUTES = aws_product("p5.48xlarge", "us-east-1", "1")["product"]["attributes"]


@pytest.mark.parametrize(
    "broken", [{}, {"product": {}}, {"product": {"attributes": ATTRIBUTES}, "terms": []}, [], 7]
)
def test_broken_products_are_refused(broken: Any) -> None:
    with pytest.raises(SourceError, match="cannot read"):
        list(product_prices(json.dumps(broken), "us-east-1", {"p5.48xlarge"}, DAY))


def azure(
    price: float, name: str = "Standard_NC6s_v3", region: str = "eastus", **more: Any
) -> list[ListPrice]:
    return list(item_prices(azure_item(name, region, price, **more), DAY))


def test_broken_items_and_placeholders_of_azure_are_left_out() -> None:
    with pytest.raises(SourceError, match="cannot read"):
        azure(1.0, type="Reservation", reservationTerm="soon")
    assert [price.purchase_option for price in azure(1.0)] == ["on_demand"]
    assert azure(0.0) == azure(1.0, effectiveEndDate="2026-11-01T00:00:00Z") == []
    h200 = "Standard_ND96isr_H200_v5"
    spot = {"skuName": f"{h200} Spot", "meterName": f"{h200} Spot"}
    prices = [*azure(84.8, h200, "westus3"), *azure(84.8, h200, "eastus2"), *azure(84.8, h200, "westus3", **spot),
              *azure(25.44, h200, "eastus2", **spot)]  # fmt: skip
    kept = without_placeholders(without_duplicates(prices))
    assert [f"{one.region} {one.purchase_option} {float(one.price_per_hour)}" for one in kept] == [
        "eastus2 on_demand 84.8", "eastus2 spot 25.44", "westus3 on_demand 84.8"
    ]  # fmt: skip


def list_price(price: str, region: str = "r", start: date | None = None) -> ListPrice:
    return ListPrice(
        region=region, instance_type="t", purchase_option="on_demand", price_per_hour=Decimal(price), currency="USD",
        source="test", effective_start=start,
    )  # fmt: skip


def test_newest_then_most_expensive_of_several_prices_is_used() -> None:
    dated = [list_price("3", start=date(2025, 1, 1)), list_price("1"), list_price("2", start=DAY)]
    for prices in (dated, [list_price("1"), list_price("2")]):
        assert [price.price_per_hour for price in without_duplicates(prices)] == [2]


def test_facts_enter_the_store_once_a_day(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    assert node_regions(store) == []
    types = [InstanceType("t", "L4", 0.125, None, 4, None, "test")]
    parts = [ComponentPrice("r", "gpu/L4", "spot", 0, Decimal("0.1"), "USD", "test")]

    for fact in ("1.0000000000001 r 21", "2 r 21", "3 other 21", "4 r 22"):
        price, region, day = fact.split()
        components = parts if region == "r" else []
        answer = ProviderPrices("aws", [region], [list_price(price, region)], components, types)
        load_prices(store, answer, NOW.replace(day=int(day)))
    first, second = date(2026, 11, 21), date(2026, 11, 22)
    facts = store.query("SELECT region, price_per_hour, price_as_of FROM list_prices ORDER BY ALL")[1]
    assert facts == [("other", 3, first), ("r", 2, first), ("r", 4, second)]
    assert store.query("SELECT count(*) FROM component_prices")[1] == [(2,)]
    facts = store.query("SELECT gpu_count, memory_gib, seen_on FROM instance_types ORDER BY ALL")[1]
    assert facts == [(0.125, None, first), (0.125, None, second)]
    loads = store.query("SELECT kind, source, to_ms - from_ms, rows FROM loads ORDER BY load_id")[1]
    assert loads[0] == ("prices", "aws", 9 * 3_600_000, 3) and len(loads) == 4
    assert store.query("SELECT count(*) FROM collect_runs WHERE finished_at IS NULL")[1] == [(0,)]
