"""Google Cloud's list prices through google-cloud-billing, over gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from gpucost.collect.prices import PriceResult
from gpucost.config.model import Config, Gcp
from gpucost.store.connection import Store
from tests.services.price_clouds import Cloud, Reply, check_failure, collected, gcp_cloud, gcp_sku, rows
from tests.shared import shared

IOWA = "us-central1"
A2 = [
    gcp_sku("A2 Instance Core running in Americas", "CPU", "0.031611"),
    gcp_sku("A2 Instance Ram running in Americas", "RAM", "0.004237"),
    gcp_sku("Nvidia Tesla A100 GPU running in Americas", "GPU", "2.933908"),
    gcp_sku("Nvidia Tesla A100 80GB GPU running in Americas", "GPU", "3.93"),
    gcp_sku("Spot Preemptible A2 Instance Core running in Americas", "CPU", "0.015", usage="Preemptible"),
    gcp_sku("Spot Preemptible A2 Instance Ram running in Americas", "RAM", "0.002", usage="Preemptible"),
    gcp_sku(
        "Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas",
        "GPU",
        "1.6",
        usage="Preemptible",
    ),
    gcp_sku("Commitment v1: A2 Cpu in Americas for 1 Year", "CPU", "0.019915", usage="Commit1Yr"),
    gcp_sku("Commitment v1: A2 Ram in Americas for 1 Year", "RAM", "0.002669", usage="Commit1Yr"),
    gcp_sku(
        "Commitment v1: Nvidia Tesla A100 GPU running in Americas for 1 Year",
        "GPU",
        "1.848362",
        usage="Commit1Yr",
    ),
]
SSD = [
    # the first terabyte of what is no on-demand disk is free elsewhere: the tier that starts at 0 counts
    gcp_sku("SSD backed Local Storage", "LocalSSD", "", tiers=((0, "0.08"), (1_000_000, "0.04"))),
    gcp_sku("C4 Instance Local SSD running in Americas", "LocalSSD", "9"),
]
MEGA = [
    gcp_sku("A3 Instance Core running in Americas", "CPU", "0.0293"),
    gcp_sku("A3 Instance Ram running in Americas", "RAM", "0.0025"),
    gcp_sku("Nvidia H100 80GB GPU running in Americas", "GPU", "9.796550569"),
    gcp_sku("A3Plus Instance Core running in Americas", "CPU", "0.026924"),
    gcp_sku("A3Plus Instance Ram running in Americas", "RAM", "0.002344"),
    gcp_sku("Nvidia H100 80GB Plus GPU running in Americas", "GPU", "10.344276"),
    gcp_sku("Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode", "GPU", "4.841121"),
    gcp_sku(
        "Nvidia H100 Mega 80GB GPU attached to DWS Defined Duration VMs running in Americas",
        "GPU",
        "4.423936",
    ),
]
OTHERS = [
    gcp_sku("A4 Nvidia B200 (1 gpu slice) running in Americas", "GPU", "16.11"),
    gcp_sku("Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas", "GPU", "4.9542"),
    gcp_sku("A2 Custom Instance Core running in Americas", "CPU", "7"),
    gcp_sku("Nvidia L4 GPU running in Tokyo", "GPU", "0.7", regions=("asia-northeast1",)),
    gcp_sku("A2 Instance Core running in Sydney", "CPU", "0", regions=("australia-southeast1",)),
]


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with gcp_cloud([*A2, *SSD, *MEGA, *OTHERS]) as running:
        yield running


def collect(cloud: Cloud, store: Store, *regions: str) -> PriceResult:
    return collected("gcp", Config(gcp=Gcp(endpoint=cloud.url)), store, *regions)


def price(store: Store, machine: str, option: str = "on_demand", term: int = 0) -> Decimal | None:
    facts = rows(
        store, "SELECT region, instance_type, purchase_option, term_years, price_per_hour FROM list_prices"
    )
    prices = [fact[4] for fact in facts if fact[:4] == (IOWA, machine, option, term)]
    assert len(prices) < 2
    return prices[0] if prices else None


def test_machines_are_composed_of_their_parts(cloud: Cloud, store: Store) -> None:
    result = collect(cloud, store)
    assert result.ok, result.error
    assert result.regions == ("us-central1", "us-east1")
    # core, memory, GPU: as Google's own price of the machine
    assert price(store, "a2-highgpu-1g") == Decimal("3.673385")
    assert price(store, "a2-highgpu-1g", "spot") == 12 * Decimal("0.015") + 85 * Decimal("0.002") + Decimal(
        "1.6"
    )
    assert price(store, "a2-highgpu-1g", "cud", 1) == Decimal("2.314207")
    assert price(store, "a2-highgpu-1g", "cud", 3) is None
    # a machine of 16 GPUs shares one host
    assert price(store, "a2-megagpu-16g") == 96 * Decimal("0.031611") + 1360 * Decimal(
        "0.004237"
    ) + 16 * Decimal("2.933908")
    # bundled local SSD, sold by the month
    host = 12 * Decimal("0.031611") + 170 * Decimal("0.004237")
    assert price(store, "a2-ultragpu-1g") == round(host + Decimal("3.93") + 375 * Decimal("0.08") / 730, 12)
    assert price(store, "a2-ultragpu-1g", "spot") is None  # no spot price of its GPU
    assert cloud.count("skus") > 5  # pages
    # H100 Mega is A3Plus, neither calendar mode nor DWS
    ssd = 6000 * Decimal("0.08") / 730
    mega = 208 * Decimal("0.026924") + 1872 * Decimal("0.002344") + 8 * Decimal("10.344276") + ssd
    assert price(store, "a3-megagpu-8g") == round(mega, 12)
    plain = 208 * Decimal("0.0293") + 1872 * Decimal("0.0025") + 8 * Decimal("9.796550569") + ssd
    assert price(store, "a3-highgpu-8g") == round(plain, 12)
    # a slice covers its part of the machine
    assert price(store, "a4-highgpu-8g") == 8 * Decimal("16.11")
    assert price(store, "a4-highgpu-8g", "spot") == 8 * Decimal(
        "4.9542"
    )  # filed as on demand, said to be spot


@pytest.mark.shared
def test_skus_as_google_answered_them(store: Store) -> None:
    from google.cloud.billing_v1.types import ListSkusResponse

    text = shared("data/billing/pricing-api-json/gcp-catalog-opencost/skus.json").read_text(encoding="utf-8")
    with gcp_cloud(list(ListSkusResponse.from_json(text, ignore_unknown_fields=True).skus)) as cloud:
        assert collect(cloud, store, IOWA).ok
    assert price(store, "a2-highgpu-1g") == Decimal("3.673385")


def test_throttling_is_waited_out(cloud: Cloud, store: Store) -> None:
    import grpc

    busy = Reply(grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota exceeded")
    cloud.trick = lambda _service, number: busy if number in (1, 3) else None
    assert collect(cloud, store).ok


@pytest.mark.parametrize(
    ("code", "details", "message"),
    [
        (
            "UNAUTHENTICATED",
            "Request had invalid credentials.",
            "gcp: the credentials have expired or are refused",
        ),
        ("DATA_LOSS", "stream cut", "gcp: half an answer, or none"),
    ],
)
def test_a_failure_in_the_middle_writes_nothing(
    cloud: Cloud, store: Store, code: str, details: str, message: str
) -> None:
    import grpc

    cloud.trick = lambda _service, number: (
        Reply(getattr(grpc.StatusCode, code), details) if number == 4 else None
    )
    check_failure(collect(cloud, store), message)
    assert not store.exists


def test_a_region_without_prices_of_machines(cloud: Cloud, store: Store) -> None:
    check_failure(
        collect(cloud, store, IOWA, "asia-northeast1"),
        "gcp: there are no prices of GPU machines in asia-northeast1",
    )
    assert not store.exists


def test_without_credentials_gcp_is_skipped(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("NO_GCE_CHECK", "true")
    monkeypatch.delenv("GOOGLE_APPLICATION_CREDENTIALS", raising=False)
    result = collected("gcp", Config(), store)
    assert result.skipped is not None and result.skipped.message == "gcp: no credentials found"


def test_a_credentials_file_that_is_not_there_is_no_skipping(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "gone.json"))
    result = collected("gcp", Config(), store)
    assert result.error is not None and "gone.json" in result.error.message
