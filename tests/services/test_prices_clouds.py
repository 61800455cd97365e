"""List prices of Google Cloud (gRPC) and Azure (HTTP), from stand-ins that page, filter, throttle and disconnect."""

from __future__ import annotations

from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path

import pytest

from gpucost.collect.prices import PriceResult
from gpucost.config.model import Azure, Config, Gcp
from gpucost.store.connection import Store
from tests.services.price_clouds import (
    Cloud,
    Reply,
    azure_cloud,
    azure_item,
    azure_items,
    check_failure,
    collected,
    gcp_cloud,
    gcp_sku,
    gcp_skus,
    rows,
    shown,
    word_rows,
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
    # elsewhere, the first terabyte of other disks is free: the tier that starts at 0 counts
    gcp_sku("SSD backed Local Storage", "LocalSSD", "", tiers=((0, "0.08"), (1_000_000, "0.04"))),
    gcp_sku("Nvidia L4 GPU running in Tokyo", "GPU", "0.7", regions=("asia-northeast1",)),
    gcp_sku("A2 Instance Core running in Sydney", "CPU", "0", regions=("australia-southeast1",)),
]


@pytest.fixture
def gcp() -> Iterator[Cloud]:
    with gcp_cloud([*SKUS, *OTHERS]) as running:
        yield running


def collect_gcp(gcp: Cloud, store: Store, *regions: str) -> PriceResult:
    return collected("gcp", Config(gcp=Gcp(endpoint=gcp.url)), store, *regions)


def prices(store: Store) -> dict[tuple[str, str, int], str]:
    """Return prices in Iowa by machine, option and term."""
    found = shown(store, "instance_type, purchase_option, term_years, price_per_hour, region")
    return {(name, option, int(term)): price for name, option, term, price, region in found if region == IOWA}


#: Costs of a machine's parts: machine, option, term, counts with prices, and GiB of local SSD per month. A machine with 16 GPUs
#: shares one host; H100 Mega is A3Plus, not calendar mode or DWS; a slice covers its part of the machine, even if its spot
#: price is listed as on demand.
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


def test_machine_prices_are_composed_of_parts(gcp: Cloud, store: Store) -> None:
    result = collect_gcp(gcp, store)
    assert result.prices, result.error
    assert result.regions == ("us-central1", "us-east1")
    found = prices(store)
    assert {key: Decimal(found[key]) for key in COMPOSED} == {
        key: round(price, 12) for key, price in COMPOSED.items()
    }
    # neither a three-year commitment nor a spot price of its GPU
    assert not {("a2-highgpu-1g", "cud", 3), ("a2-ultragpu-1g", "spot", 0)} & found.keys()
    assert gcp.count("skus") > 5  # pages


@pytest.mark.shared
def test_real_skus_of_google_are_read(store: Store) -> None:
    from google.cloud.billing_v1.types import ListSkusResponse

    text = shared("data/billing/pricing-api-json/gcp-catalog-opencost/skus.json").read_text(encoding="utf-8")
    with gcp_cloud(list(ListSkusResponse.from_json(text, ignore_unknown_fields=True).skus)) as gcp:
        assert collect_gcp(gcp, store, IOWA).prices
    assert prices(store)["a2-highgpu-1g", "on_demand", 0] == "3.673385"


def test_gcp_throttling_is_waited_out(gcp: Cloud, store: Store) -> None:
    import grpc

    busy = Reply(grpc.StatusCode.RESOURCE_EXHAUSTED, "Quota exceeded")
    gcp.trick = lambda _service, number: busy if number in (1, 3) else None
    assert collect_gcp(gcp, store).prices


FAILURES = """
expired | UNAUTHENTICATED | Request had invalid credentials. | gcp: the credentials have expired or are refused
cut     | DATA_LOSS       | stream cut                       | gcp: incomplete answer
"""


@pytest.mark.parametrize(("code", "details", "message"), named_rows(FAILURES))
def test_failure_midway_leaves_the_store_unchanged(
    gcp: Cloud, store: Store, code: str, details: str, message: str
) -> None:
    import grpc

    reply = Reply(getattr(grpc.StatusCode, code), details)
    gcp.trick = lambda _service, number: reply if number == 4 else None
    check_failure(collect_gcp(gcp, store), message)
    assert not store.exists


def test_region_without_machine_prices_is_an_error(gcp: Cloud, store: Store) -> None:
    message = "gcp: no prices of GPU machines in asia-northeast1"
    check_failure(collect_gcp(gcp, store, IOWA, "asia-northeast1"), message)
    assert not store.exists


def test_missing_credentials_are_skipped_and_missing_files_are_errors(
    nobody: None, store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """Without credentials, the provider is skipped; a missing credentials file is an error."""
    result = collected("gcp", Config(), store)
    assert result.skipped is not None and result.skipped.message == "gcp: no credentials found"
    monkeypatch.setenv("GOOGLE_APPLICATION_CREDENTIALS", str(tmp_path / "gone.json"))
    result = collected("gcp", Config(), store)
    assert result.error is not None and "gone.json" in result.error.message


A100 = "Standard_NC24ads_A100_v4"
PLANS = [
    {"unitPrice": price, "retailPrice": price, "term": term}
    for term, price in (("1 Year", 2.79), ("3 Years", 1.9))
]
#: Every kind of item of each machine, most of which are not its hourly price.
ITEMS = [
    azure_item(A100, "eastus", 3.673, savingsPlan=PLANS),
    azure_item(A100, "eastus", 3.673, isPrimaryMeterRegion=False, savingsPlan=PLANS),
    azure_item("Standard_ND96isr_H100_v5", "", 98.32),
    *azure_items("""
Standard_NC24ads_A100_v4 | eastus     | 3.5   | effectiveStartDate=2024-01-01T00:00:00Z
Standard_NC24ads_A100_v4 | eastus     | 9.9   | effectiveStartDate=2027-01-01T00:00:00Z
Standard_NC24ads_A100_v4 | eastus     | 1.1   | skuName="NC24ads A100 v4 Spot" meterName="NC24ads A100 v4 Spot"
Standard_NC24ads_A100_v4 | eastus     | 0.7   | skuName="NC24ads A100 v4 Low Priority" meterName="NC24ads A100 v4 Low Priority"
Standard_NC24ads_A100_v4 | eastus     | 4.777 | productName="Virtual Machines NCads A100 v4 Series Windows"
Standard_NC24ads_A100_v4 | eastus     | 4.8   | productName="NCads A100 v4 Series Cloud Services"
Standard_NC24ads_A100_v4 | eastus     | 3.0   | type=DevTestConsumption
Standard_NC24ads_A100_v4 | eastus     | 21900 | type=Reservation reservationTerm="1 Year"
Standard_NC24ads_A100_v4 | eastus     | 39420 | type=Reservation reservationTerm="3 Years"
Standard_NC24ads_A100_v4 | eastus     | 43800 | type=Reservation reservationTerm="5 Years"
Standard_NP10s           | eastus     | 1.65  |
Standard_D2s_v3          | eastus     | 0.096 |
Standard_ND96isr_H100_v5 | westeurope | 98.32 |
Standard_ND96isr_H100_v5 | westeurope | 98.32 | skuName="ND96isr H100 v5 Spot" meterName="ND96isr H100 v5 Spot"
"""),
]


@pytest.fixture
def azure() -> Iterator[Cloud]:
    with azure_cloud(ITEMS) as running:
        yield running


def collect_azure(azure: Cloud, store: Store, *regions: str, currency: str = "USD") -> PriceResult:
    return collected(
        "azure", Config(azure=Azure(retail_prices_url=azure.url), currency=currency), store, *regions
    )


def test_all_purchase_options_of_a_machine_are_collected(azure: Cloud, store: Store) -> None:
    result = collect_azure(azure, store)
    assert result.prices, result.error
    assert result.regions == ("eastus", "westeurope")
    assert shown(store, "region, instance_type, purchase_option, term_years, price_per_hour") == word_rows("""
        eastus     Standard_NC24ads_A100_v4  on_demand    0 3.673
        eastus     Standard_NC24ads_A100_v4  reserved     1 2.5
        eastus     Standard_NC24ads_A100_v4  reserved     3 1.5
        eastus     Standard_NC24ads_A100_v4  reserved     5 1
        eastus     Standard_NC24ads_A100_v4  savings_plan 1 2.79
        eastus     Standard_NC24ads_A100_v4  savings_plan 3 1.9
        eastus     Standard_NC24ads_A100_v4  spot         0 1.1
        westeurope Standard_ND96isr_H100_v5  on_demand    0 98.32
    """)
    about = shown(store, "DISTINCT provider, currency, price_as_of, effective_start")
    assert about == word_rows("azure USD 2026-11-21 2026-09-01")
    assert len(azure.questions) == 8  # pages, each link with the query
    assert {question["api-version"] for _, question in azure.questions} == {"2023-01-01-preview"}
    # the same day replaces
    before = rows(store, "SELECT * FROM list_prices ORDER BY ALL")
    assert collect_azure(azure, store, "eastus").prices
    assert rows(store, "SELECT * FROM list_prices ORDER BY ALL") == before
    assert collect_azure(azure, store, "westeurope", currency="EUR").prices
    assert rows(store, "SELECT region FROM list_prices WHERE currency = 'EUR'") == [("westeurope",)]


def test_azure_throttling_waits_for_the_given_time(
    azure: Cloud, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    busy = {2: Reply(429, {"error": {"code": "429"}}, {"Retry-After": "7"}), 4: Reply(503, b"")}
    azure.trick = lambda _service, number: busy.get(number)
    assert collect_azure(azure, store).prices
    assert pauses == [7.0, 0.5]


AZURE_FAILURES = """
half    | 200 | 0    | {"Items": [{}, {}], "Count": 100, "NextPageLink": null} | azure: the list of retail prices gave an incomplete answer
broken  | 200 | 5000 | {"Items": [ | azure: the list of retail prices cannot be reached: the connection failed
refused | 401 | 0    | | azure: the list of retail prices refuses access (HTTP 401)
wrong   | 400 | 0    | {"Error": "Invalid currency code"} | azure: the list of retail prices answered HTTP 400: Invalid currency code
"""  # noqa: E501


@pytest.mark.parametrize(("status", "missing", "body", "message"), named_rows(AZURE_FAILURES))
def test_azure_failure_midway_leaves_the_store_unchanged(
    azure: Cloud,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    missing: str,
    body: str,
    message: str,
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    reply = Reply(int(status), body.encode(), cut=int(missing))
    azure.trick = lambda _service, number: reply if number > 2 else None
    check_failure(collect_azure(azure, store), message)
    assert not store.exists


def test_cyclic_link_is_not_followed_forever(azure: Cloud, store: Store) -> None:
    page = {"Items": [], "Count": 0, "NextPageLink": f"{azure.url}?round"}
    azure.trick = lambda _service, _number: Reply(200, page)
    check_failure(collect_azure(azure, store), "azure: the retail prices pages do not end")


def test_azure_region_without_prices_fails_the_whole_provider(azure: Cloud, store: Store) -> None:
    message = "azure: no prices of GPU machines in marscentral"
    check_failure(collect_azure(azure, store, "eastus", "marscentral"), message)
    assert not store.exists
