"""Azure's list prices over HTTP, from a stand-in that pages, filters, limits and breaks off."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from gpucost.collect.prices import PriceResult
from gpucost.config.model import Azure, Config
from gpucost.store.connection import Store
from tests.services.price_clouds import (
    Cloud,
    Reply,
    azure_cloud,
    azure_item,
    azure_items,
    check_failure,
    collected,
    rows,
    shown,
    words,
)
from tests.text_tables import named_rows

A100 = "Standard_NC24ads_A100_v4"
PLANS = [
    {"unitPrice": price, "retailPrice": price, "term": term}
    for term, price in (("1 Year", 2.79), ("3 Years", 1.9))
]
#: Of each machine every kind of item, most of which are not what an hour of it costs.
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
def cloud() -> Iterator[Cloud]:
    with azure_cloud(ITEMS) as running:
        yield running


def collect(cloud: Cloud, store: Store, *regions: str, currency: str = "USD") -> PriceResult:
    return collected(
        "azure", Config(azure=Azure(retail_prices_url=cloud.url), currency=currency), store, *regions
    )


def test_all_ways_to_buy_a_machine(cloud: Cloud, store: Store) -> None:
    result = collect(cloud, store)
    assert result.ok, result.error
    assert result.regions == ("eastus", "westeurope")
    assert shown(store, "region, instance_type, purchase_option, term_years, price_per_hour") == words("""
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
    assert about == words("azure USD 2026-11-21 2026-09-01")
    assert len(cloud.questions) == 8  # pages, each link holding what was asked
    assert {question["api-version"] for _, question in cloud.questions} == {"2023-01-01-preview"}
    # the same day replaces
    before = rows(store, "SELECT * FROM list_prices ORDER BY ALL")
    assert collect(cloud, store, "eastus").ok
    assert rows(store, "SELECT * FROM list_prices ORDER BY ALL") == before
    assert collect(cloud, store, "westeurope", currency="EUR").ok
    assert rows(store, "SELECT region FROM list_prices WHERE currency = 'EUR'") == [("westeurope",)]


def test_throttling_waits_as_long_as_it_is_told(
    cloud: Cloud, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    pauses: list[float] = []
    monkeypatch.setattr("tenacity.nap.time.sleep", pauses.append)
    busy = {2: Reply(429, {"error": {"code": "429"}}, {"Retry-After": "7"}), 4: Reply(503, b"")}
    cloud.trick = lambda _service, number: busy.get(number)
    assert collect(cloud, store).ok
    assert pauses == [7.0, 0.5]


FAILURES = """
half    | 200 | 0    | {"Items": [{}, {}], "Count": 100, "NextPageLink": null} | azure: half an answer: items are missing
broken  | 200 | 5000 | {"Items": [ | azure: half an answer, the connection broke off
refused | 401 | 0    | | azure: the list of retail prices refuses access (HTTP 401)
wrong   | 400 | 0    | {"Error": "Invalid currency code"} | azure: the list of retail prices answered HTTP 400: Invalid currency code
"""  # noqa: E501


@pytest.mark.parametrize(("status", "missing", "body", "message"), named_rows(FAILURES))
def test_a_failure_in_the_middle_writes_nothing(
    cloud: Cloud,
    store: Store,
    monkeypatch: pytest.MonkeyPatch,
    status: str,
    missing: str,
    body: str,
    message: str,
) -> None:
    monkeypatch.setattr("tenacity.nap.time.sleep", lambda _: None)
    reply = Reply(int(status), body.encode(), cut=int(missing))
    cloud.trick = lambda _service, number: reply if number > 2 else None
    check_failure(collect(cloud, store), message)
    assert not store.exists


def test_a_link_that_leads_back_is_not_followed_for_ever(cloud: Cloud, store: Store) -> None:
    page = {"Items": [], "Count": 0, "NextPageLink": f"{cloud.url}?round"}
    cloud.trick = lambda _service, _number: Reply(200, page)
    check_failure(collect(cloud, store), "azure: the retail prices have no end")


def test_a_region_without_prices_fails_the_whole_provider(cloud: Cloud, store: Store) -> None:
    message = "azure: there are no prices of GPU machines in marscentral"
    check_failure(collect(cloud, store, "eastus", "marscentral"), message)
    assert not store.exists
