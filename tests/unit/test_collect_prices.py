"""What the collectors of list prices make of single facts, and how they enter the store."""

from __future__ import annotations

import json
from datetime import UTC, date, datetime
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest

from gpucost.collect.prices.aws import accelerated, plan_price, product_prices
from gpucost.collect.prices.azure import item_prices, without_placeholders
from gpucost.collect.prices.base import gpu_model, is_region_of, known_types, one_of_each
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

DAY = date(2026, 11, 21)
NOW = datetime(2026, 11, 21, 9, tzinfo=UTC)


@pytest.mark.parametrize(
    ("description", "group", "usage", "unit"),
    [
        ("A2 Instance Core running in Americas", "CPU", "OnDemand", PriceUnit("cpu", "a2")),
        ("A3Plus Instance Ram running in Tokyo", "RAM", "OnDemand", PriceUnit("memory_gib", "a3plus")),
        ("A3Ultra Instance Core running in Iowa", "CPU", "OnDemand", PriceUnit("cpu", "a3ultra")),
        ("Spot Preemptible G2 Instance Core running in Las Vegas", "CPU", "Preemptible", PriceUnit("cpu", "g2", "spot")),
        ("Commitment v1: A2 Cpu in Americas for 1 Year", "CPU", "Commit1Yr", PriceUnit("cpu", "a2", "cud", 1)),
        ("Commitment v1: G2 Ram in Tokyo for 3 Years", "RAM", "Commit3Yr", PriceUnit("memory_gib", "g2", "cud", 3)),
        ("Commitment v1: Cpu in Americas for 3 Years", "CPU", "Commit3Yr", PriceUnit("cpu", "n1", "cud", 3)),
        ("N1 Predefined Instance Ram running in Americas", "N1Standard", "OnDemand", PriceUnit("memory_gib", "n1")),
        ("Nvidia Tesla A100 GPU running in Americas", "GPU", "OnDemand", PriceUnit("gpu", "A100-SXM4-40GB")),
        ("Nvidia Tesla A100 80GB GPU running in Netherlands", "GPU", "OnDemand", PriceUnit("gpu", "A100-SXM4-80GB")),
        ("Nvidia Tesla T4 GPU attached to Spot Preemptible VMs running in Tokyo", "GPU", "Preemptible",
         PriceUnit("gpu", "T4", "spot")),
        ("Nvidia Tesla V100 GPU running in Taiwan", "GPU", "OnDemand", PriceUnit("gpu", "V100-SXM2-16GB")),
        ("Nvidia L4 GPU running in Virginia", "GPU", "OnDemand", PriceUnit("gpu", "L4")),
        ("H200 141GB GPU running in Americas", "GPU", "OnDemand", PriceUnit("gpu", "H200")),
        ("RTX 6000 96GB running in Iowa", "GPU", "OnDemand", PriceUnit("gpu", "RTX-PRO-6000")),
        ("Nvidia H100 80GB GPU running in Americas", "GPU", "OnDemand", PriceUnit("gpu", "H100-80GB-HBM3")),
        ("Nvidia H100 80GB Mega GPU running in Americas", "GPU", "OnDemand", PriceUnit("gpu", "H100-80GB-HBM3-Mega")),
        ("Nvidia H100 80GB Plus GPU running in Americas", "GPU", "OnDemand", PriceUnit("gpu", "H100-80GB-HBM3-Mega")),
        ("Commitment v1: Nvidia H100 80GB GPU in Iowa for 3 Year", "GPU", "Commit3Yr",
         PriceUnit("gpu", "H100-80GB-HBM3", "cud", 3)),
        ("A4 Nvidia B200 (1 gpu slice) running in Americas", "GPU", "OnDemand", PriceUnit("gpu", "B200")),
        ("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas", "GPU", "OnDemand",
         PriceUnit("gpu", "B200", "spot")),
        ("SSD backed Local Storage", "LocalSSD", "OnDemand", PriceUnit("local_ssd_gib", "")),
        ("SSD backed Local Storage in Bangkok", "LocalSSD", "OnDemand", PriceUnit("local_ssd_gib", "")),
        ("SSD backed Local Storage attached to Spot Preemptible VMs running in Paris", "LocalSSD", "OnDemand",
         PriceUnit("local_ssd_gib", "", "spot")),
        ("Commitment v1: Local SSD in Iowa for 1 Year", "LocalSSD", "Commit1Yr", PriceUnit("local_ssd_gib", "", "cud", 1)),
        ("Commitment v1: C4D Local SSD in Americas for 3 Year", "LocalSSD", "Commit3Yr", None),
        ("A2 Custom Instance Core running in Americas", "CPU", "OnDemand", None),
        ("A2 Sole Tenancy Instance Core running in Americas", "CPU", "OnDemand", None),
        ("Reserved A2 Ram in Netherlands", "RAM", "OnDemand", None),
        ("Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode", "GPU", "OnDemand", None),
        ("Nvidia L4 GPU attached to DWS Defined Duration VMs running in Frankfurt", "GPU", "OnDemand", None),
        ("Commitment v1: N4A Core in Johannesburg for 5 Years", "CPU", "Commit", None),
        ("VM state: preserved local SSD in Bangkok", "LocalSSD", "OnDemand", None),
        ("Committed Use Discount Premium for E2 Instance Core running in Iowa", "CPU", "CmtCudPremium", None),
    ],
)  # fmt: skip
def test_what_a_sku_of_google_prices(
    description: str, group: str, usage: str, unit: PriceUnit | None
) -> None:
    from google.cloud.billing_v1.types import Sku

    measure = "GiBy.h" if " Ram " in description else ""
    price = unit_price(Sku(gcp_sku(description, group, "0.5", usage=usage, unit=measure)))
    assert (price.unit if price else None) == unit


def test_units_tiers_and_free_skus_of_google() -> None:
    from google.cloud.billing_v1.types import Sku

    def price(group: str = "CPU", **about: Any) -> Decimal | None:
        words = "SSD backed Local Storage" if group == "LocalSSD" else "A2 Instance Core running in Iowa"
        price = unit_price(Sku(gcp_sku(words, group, about.pop("price", "0.73"), **about)))
        return price.price_per_hour if price else None

    assert price() == Decimal("0.73")
    assert price(price="12.000000001") == Decimal("12.000000001")
    assert price("LocalSSD") == Decimal("0.001")  # by the month
    assert price("LocalSSD", unit="GiBy.h") == Decimal("0.73")
    assert price(tiers=((100, "0.1"), (0, "0.2"))) == Decimal("0.2")
    assert price(tiers=((100, "0.1"),)) is None
    assert price(price="0") is None
    assert price(unit="GiBy") is None


@pytest.mark.parametrize("order", [1, -1])
def test_of_several_prices_of_a_sku_of_google_the_newest_counts(order: int) -> None:
    from google.cloud.billing_v1.types import Sku

    newer, older = (
        gcp_sku("Nvidia Tesla T4 GPU running in Americas", "GPU", price) for price in ("0.5", "0.9")
    )
    (info,) = older["pricing_info"]
    info["effective_time"] = datetime(2025, 1, 1, tzinfo=UTC)
    newer["pricing_info"] = [*newer["pricing_info"], info][::order]
    price = unit_price(Sku(newer))
    assert price is not None and (price.price_per_hour, price.effective_start) == (
        Decimal("0.5"),
        date(2026, 11, 20),
    )


def test_names_of_families_components_regions_and_machines() -> None:
    assert [
        family_of(name) for name in ("a3-megagpu-8g", "a3-ultragpu-8g", "a3-highgpu-1g", "g2-standard-4")
    ] == ["a3plus", "a3ultra", "a3", "g2"]
    units = {"a2/cpu": ("cpu", "a2"), "a2/memory_gib": ("memory_gib", "a2"), "gpu/L4": ("gpu", "L4")}
    assert [PriceUnit(*unit).component for unit in units.values()] == list(units)
    assert PriceUnit("local_ssd_gib", "").component == "local_ssd_gib"
    spelled = {
        "us-east-1": "aws",
        "us-gov-west-1": "aws",
        "ap-southeast-7": "aws",
        "us-central1": "gcp",
        "africa-south1": "gcp",
    }
    spelled |= {
        "northamerica-northeast1": "gcp",
        "eastus": "azure",
        "westus3": "azure",
        "germanywestcentral": "azure",
    }
    for region, owner in spelled.items():
        assert [name for name in ("aws", "gcp", "azure") if is_region_of(name, region)] == [owner], region
    ultra = known_types("gcp")["a2-ultragpu-2g"]
    assert (ultra.gpu_model, ultra.gpu_count, ultra.vcpus) == ("A100-SXM4-80GB", Decimal(2), Decimal(24))
    assert (ultra.memory_gib, ultra.local_ssd_gib) == (Decimal(340), Decimal(750))
    assert gpu_model("unheard of", "NVIDIA H100 80GB HBM3") == "H100-80GB-HBM3"


def ec2(name: str, info: str, kind: str, **device: Any) -> InstanceType | None:
    size = {"VCpuInfo": {"DefaultVCpus": 4}, "MemoryInfo": {"SizeInMiB": 16384}}
    return accelerated({"InstanceType": name, **size, info: {kind: [device]}})


def test_names_and_counts_that_ec2_gives_accelerators() -> None:
    part = {"Name": "L4", "Count": 0, "MemoryInfo": {"SizeInMiB": 2861}}
    partition = ec2("g6f.large", "GpuInfo", "Gpus", **part, LogicalGpuCount=1, GpuPartitionSize=0.125)
    assert partition is not None and (partition.gpu_model, partition.gpu_count, partition.gpu_memory_mib) == (
        "L4",
        0.125,
        2861,
    )
    known = ec2("g6f.4xlarge", "GpuInfo", "Gpus", **part)
    assert known is not None and known.gpu_count == 0.5  # the catalog's
    by_memory = ec2("g99f.large", "GpuInfo", "Gpus", Name="L4", Count=0, MemoryInfo={"SizeInMiB": 5722})
    assert by_memory is not None and by_memory.gpu_count == 0.25

    def model(info: str, kind: str, name: str, memory: int) -> str:
        instance_type = ec2("x99.xlarge", info, kind, Name=name, Count=1, MemoryInfo={"SizeInMiB": memory})
        assert instance_type is not None and instance_type.gpu_count == 1
        return instance_type.gpu_model

    assert model("GpuInfo", "Gpus", "A100", 40960) == "A100-SXM4-40GB"
    assert model("GpuInfo", "Gpus", "A100", 81920) == "A100-SXM4-80GB"
    assert model("GpuInfo", "Gpus", "V100", 32768) == "V100-SXM2-32GB"
    assert model("GpuInfo", "Gpus", "RTX PRO Server 6000", 98304) == "RTX-PRO-6000"
    assert model("GpuInfo", "Gpus", "Gaudi HL-205", 32768) == "Gaudi"
    assert model("NeuronInfo", "NeuronDevices", "Trainium2", 98304) == "Trainium2"
    assert model("InferenceAcceleratorInfo", "Accelerators", "Inferentia", 8192) == "Inferentia"
    assert model("GpuInfo", "Gpus", "Z 9000", 999) == "Z-9000"
    assert accelerated({"InstanceType": "m7i.large", "MemoryInfo": {"SizeInMiB": 8192}}) is None


def test_upfront_payments_are_spread_over_the_term_and_plans_have_rates() -> None:
    terms = [
        ("3yr", "standard", "Partial Upfront", "262800", "10.5"),
        ("1yr", "standard", "All Upfront", "8760", "0"),
    ]
    sold = aws_product("p5.48xlarge", "us-east-1", "55.04", terms)
    product = json.dumps(
        sold | {"terms": sold["terms"] | {"FlatRate": {"x": {"effectiveDate": "2026-01-01T00:00:00Z"}}}}
    )
    prices = {
        price.term_years: price.price_per_hour
        for price in product_prices(product, "us-east-1", {"p5.48xlarge"}, DAY)
    }
    assert prices == {0: Decimal("55.04"), 3: Decimal("20.5"), 1: Decimal(1)}
    assert not list(product_prices(product, "us-east-1", {"p4d.24xlarge"}, DAY))
    assert not list(product_prices(product, "us-east-1", {"p5.48xlarge"}, date(2026, 10, 31)))  # not begun
    price = plan_price(
        aws_rate("g5.xlarge", "us-east-1", "0.7", plan="EC2Instance", payment="All Upfront", years=3),
        {"g5.xlarge"},
    )
    assert (price.term_years, price.payment_option, price.offering) == (3, "all_upfront", "ec2_instance")
    assert plan_price(aws_rate("g5.xlarge", "us-east-1", "0.7", plan="SageMaker"), {"g5.xlarge"}) is None
    with pytest.raises(SourceError, match="cannot be read"):
        plan_price({"rate": "1"}, {"g5.xlarge"})


@pytest.mark.parametrize(
    "broken",
    [{}, {"product": {}}, {"product": {"attributes": {"instanceType": "p5.48xlarge"}}, "terms": []}, [], 7],
)
def test_a_product_that_is_none(broken: Any) -> None:
    if isinstance(broken, dict) and "terms" in broken:
        broken["product"]["attributes"] = aws_product("p5.48xlarge", "us-east-1", "1")["product"][
            "attributes"
        ]
    with pytest.raises(SourceError, match="cannot be read"):
        list(product_prices(json.dumps(broken), "us-east-1", {"p5.48xlarge"}, DAY))


def test_items_of_azure_that_are_broken_or_placeholders() -> None:
    with pytest.raises(SourceError, match="cannot be read"):
        list(
            item_prices(
                azure_item("Standard_NC6s_v3", "eastus", 1.0, type="Reservation", reservationTerm="soon"), DAY
            )
        )
    assert [p.purchase_option for p in item_prices(azure_item("Standard_NC6s_v3", "eastus", 1.0), DAY)] == [
        "on_demand"
    ]
    assert not list(item_prices(azure_item("Standard_NC6s_v3", "eastus", 0.0), DAY))
    assert not list(
        item_prices(
            azure_item("Standard_NC6s_v3", "eastus", 1.0, effectiveEndDate="2026-11-01T00:00:00Z"), DAY
        )
    )

    def spot(name: str, region: str, price: float) -> Any:
        return azure_item(name, region, price, skuName=f"{name} Spot", meterName=f"{name} Spot")

    h200 = "Standard_ND96isr_H200_v5"
    items = [azure_item(h200, region, 84.8) for region in ("westus3", "eastus2")]
    items += [spot(h200, "westus3", 84.8), spot(h200, "eastus2", 25.44)]
    kept = without_placeholders(one_of_each(price for item in items for price in item_prices(item, DAY)))
    assert [(price.region, price.purchase_option, float(price.price_per_hour)) for price in kept] == [
        ("eastus2", "on_demand", 84.8),
        ("eastus2", "spot", 25.44),
        ("westus3", "on_demand", 84.8),
    ]


def list_price(price: str, **about: Any) -> ListPrice:
    known = {
        "region": "r",
        "instance_type": "t",
        "purchase_option": "on_demand",
        "currency": "USD",
        "source": "test",
    }
    return ListPrice(price_per_hour=Decimal(price), **{**known, **about})


def test_of_several_prices_for_one_thing_the_newest_then_the_dearest_counts() -> None:
    prices = [
        list_price("3", effective_start=date(2025, 1, 1)),
        list_price("1"),
        list_price("2", effective_start=DAY),
    ]
    assert [price.price_per_hour for price in one_of_each(prices)] == [2]
    assert [price.price_per_hour for price in one_of_each([list_price("1"), list_price("2")])] == [2]


def test_facts_enter_the_store_once_a_day(tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    assert node_regions(store) == []
    types = [InstanceType("t", "L4", 0.125, None, 4, None, "test")]
    parts = [ComponentPrice("r", "gpu/L4", "spot", 0, Decimal("0.1"), "USD", "test")]

    def load(price: str, region: str = "r", day: int = 21) -> None:
        answer = ProviderPrices(
            "aws", [region], [list_price(price, region=region)], parts if region == "r" else [], types
        )
        load_prices(store, answer, NOW.replace(day=day))

    load("1.0000000000001")
    load("2")
    load("3", region="other")
    load("4", day=22)
    facts = store.query("SELECT region, price_per_hour, price_as_of FROM list_prices ORDER BY ALL")[1]
    assert facts == [
        ("other", Decimal(3), date(2026, 11, 21)),
        ("r", Decimal(2), date(2026, 11, 21)),
        ("r", Decimal(4), date(2026, 11, 22)),
    ]
    assert store.query("SELECT count(*) FROM component_prices")[1] == [(2,)]
    assert store.query("SELECT gpu_count, memory_gib, seen_on FROM instance_types ORDER BY ALL")[1] == [
        (0.125, None, date(2026, 11, 21)),
        (0.125, None, date(2026, 11, 22)),
    ]
    loads = store.query("SELECT kind, source, to_ms - from_ms, rows FROM loads ORDER BY load_id")[1]
    assert loads[0] == ("prices", "aws", 9 * 3_600_000, 3) and len(loads) == 4
    assert store.query("SELECT count(*) FROM collect_runs WHERE finished_at IS NULL")[1] == [(0,)]
