"""Google Cloud's list prices through google-cloud-billing, over gRPC."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from gpucost.collect.prices import PriceResult
from gpucost.config.model import Config, Gcp
from gpucost.store.connection import Store
from tests.services.price_clouds import (
    Cloud,
    Reply,
    check_failure,
    collected,
    gcp_cloud,
    gcp_sku,
    gcp_skus,
    shown,
)
from tests.shared import shared
from tests.text_tables import named_rows, text_rows

IOWA, SSD = "us-central1", Decimal("0.08") / 730
SKUS = gcp_skus("""
0.031611    | CPU | OnDemand    | A2 Instance Core running in Americas
0.004237    | RAM | OnDemand    | A2 Instance Ram running in Americas
2.933908    | GPU | OnDemand    | Nvidia Tesla A100 GPU running in Americas
3.93        | GPU | OnDemand    | Nvidia Tesla A100 80GB GPU running in Americas
0.015       | CPU | Preemptible | Spot Preemptible A2 Instance Core running in Americas
0.002       | RAM | Preemptible | Spot Preemptible A2 Instance Ram running in Americas
1.6         | GPU | Preemptible | Nvidia Tesla A100 GPU attached to Spot Preemptible VMs running in Americas
0.019915    | CPU | Commit1Yr   | Commitment v1: A2 Cpu in Americas for 1 Year
0.002669    | RAM | Commit1Yr   | Commitment v1: A2 Ram in Americas for 1 Year
1.848362    | GPU | Commit1Yr   | Commitment v1: Nvidia Tesla A100 GPU running in Americas for 1 Year
0.0293      | CPU | OnDemand    | A3 Instance Core running in Americas
0.0025      | RAM | OnDemand    | A3 Instance Ram running in Americas
9.796550569 | GPU | OnDemand    | Nvidia H100 80GB GPU running in Americas
0.026924    | CPU | OnDemand    | A3Plus Instance Core running in Americas
0.002344    | RAM | OnDemand    | A3Plus Instance Ram running in Americas
10.344276   | GPU | OnDemand    | Nvidia H100 80GB Plus GPU running in Americas
4.841121    | GPU | OnDemand    | Reserved Nvidia H100 80GB Mega GPU in Americas in Calendar Mode
4.423936    | GPU | OnDemand    | Nvidia H100 Mega 80GB GPU attached to DWS Defined Duration VMs running in Americas
16.11       | GPU | OnDemand    | A4 Nvidia B200 (1 gpu slice) running in Americas
4.9542      | GPU | OnDemand    | Spot Preemptible A4 Nvidia B200 (1 gpu slice) running in Americas
7           | CPU | OnDemand    | A2 Custom Instance Core running in Americas
9           | LocalSSD | OnDemand | C4 Instance Local SSD running in Americas
""")
OTHERS = [
    # the first terabyte of what is no on-demand disk is free elsewhere: the tier that starts at 0 counts
    gcp_sku("SSD backed Local Storage", "LocalSSD", "", tiers=((0, "0.08"), (1_000_000, "0.04"))),
    gcp_sku("Nvidia L4 GPU running in Tokyo", "GPU", "0.7", regions=("asia-northeast1",)),
    gcp_sku("A2 Instance Core running in Sydney", "CPU", "0", regions=("australia-southeast1",)),
]


@pytest.fixture
def cloud() -> Iterator[Cloud]:
    with gcp_cloud([*SKUS, *OTHERS]) as running:
        yield running


def collect(cloud: Cloud, store: Store, *regions: str) -> PriceResult:
    return collected("gcp", Config(gcp=Gcp(endpoint=cloud.url)), store, *regions)


def prices(store: Store) -> dict[tuple[str, str, int], str]:
    """Prices in Iowa by machine, option and term."""
    found = shown(store, "instance_type, purchase_option, term_years, price_per_hour, region")
    return {(name, option, int(term)): price for name, option, term, price, region in found if region == IOWA}


#: What parts cost a machine: machine, option, term, how many of them at which price, and GiB of local SSD by the month. A machine
#: of 16 GPUs shares one host; H100 Mega is A3Plus, neither calendar mode nor DWS; a slice covers its part of the machine, also
#: where its spot price is filed as on demand.
COMPOSED = {
    (machine, option, int(term)): Decimal(price) * int(times) + int(gib) * SSD
    for machine, option, term, times, price, gib, _ in text_rows("""
a2-highgpu-1g   | on_demand | 0 | 1 | 3.673385     | 0    | as Google's own price of the machine
a2-highgpu-1g   | spot      | 0 | 1 | 1.95         | 0    | 12 x 0.015 + 85 x 0.002 + 1.6
a2-highgpu-1g   | cud       | 1 | 1 | 2.314207     | 0    |
a2-megagpu-16g  | on_demand | 0 | 1 | 55.739504    | 0    | 96 cores, 1360 GiB, 16 GPUs
a2-ultragpu-1g  | on_demand | 0 | 1 | 5.029622     | 375  | 12, 170, 1
a3-megagpu-8g   | on_demand | 0 | 1 | 92.742368    | 6000 | 208, 1872, 8
a3-highgpu-8g   | on_demand | 0 | 1 | 89.146804552 | 6000 | 208, 1872, 8
a4-highgpu-8g   | on_demand | 0 | 8 | 16.11        | 0    |
a4-highgpu-8g   | spot      | 0 | 8 | 4.9542       | 0    |
""")
}


def test_machines_are_composed_of_their_parts(cloud: Cloud, store: Store) -> None:
    result = collect(cloud, store)
    assert result.ok, result.error
    assert result.regions == ("us-central1", "us-east1")
    found = prices(store)
    assert {key: Decimal(found[key]) for key in COMPOSED} == {
        key: round(price, 12) for key, price in COMPOSED.items()
    }
    # no commitment of three years, and no spot price of its GPU
    assert not {("a2-highgpu-1g", "cud", 3), ("a2-ultragpu-1g", "spot", 0)} & found.keys()
    assert cloud.count("skus") > 5  # pages


@pytest.mark.shared
def test_skus_as_google_answered_them(store: Store) -> None:
    from google.cloud.billing_v1.types import ListSkusResponse

    text = shared("data/billing/pricing-api-json/gcp-catalog-opencost/skus.json").read_text(encoding="utf-8")
    with gcp_cloud(list(ListSkusResponse.from_json(text, ignore_unknown_fields=True).skus)) as cloud:
        assert collect(cloud, store, IOWA).ok
    assert prices(store)["a2-highgpu-1g", "on_demand", 0] == "3.673385"


def test_throttling_is_waited_out(cloud: Cloud, store: Store) -> None:
    import grpc

    busy = Reply(grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota exceeded")
    cloud.trick = lambda _service, number: busy if number in (1, 3) else None
    assert collect(cloud, store).ok


FAILURES = """
expired | UNAUTHENTICATED | Request had invalid credentials. | gcp: the credentials have expired or are refused
cut     | DATA_LOSS       | stream cut                       | gcp: half an answer, or none
"""


@pytest.mark.parametrize(("code", "details", "message"), named_rows(FAILURES))
def test_a_failure_in_the_middle_writes_nothing(
    cloud: Cloud, store: Store, code: str, details: str, message: str
) -> None:
    import grpc

    reply = Reply(getattr(grpc.StatusCode, code), details)
    cloud.trick = lambda _service, number: reply if number == 4 else None
    check_failure(collect(cloud, store), message)
    assert not store.exists


def test_a_region_without_prices_of_machines(cloud: Cloud, store: Store) -> None:
    message = "gcp: there are no prices of GPU machines in asia-northeast1"
    check_failure(collect(cloud, store, IOWA, "asia-northeast1"), message)
    assert not store.exists


def test_credentials_that_are_missing_or_not_there(
    nobody: None, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without any, the provider is skipped; a file of them that is not there is an error."""
    result = collected("gcp", Config(), store)
    assert result.skipped is not None and result.skipped.message == "gcp: no credentials found"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "gone.json"))
    result = collected("gcp", Config(), store)
    assert result.error is not None and "gone.json" in result.error.message
