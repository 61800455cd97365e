"""The Cost Management query API, against a stand-in that speaks its wire format."""

from __future__ import annotations

import json
import time
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.collect.bill.azure import QueryTree
from gpucost.collect.bill.load import BillRun, collect_bills
from tests.services.bill_clouds import CostManagement, serving
from tests.unit.bills import Bills
from tests.unit.test_bill_azure import SET, SUB

COLUMNS = [
    "Cost",
    "UsageQuantity",
    "UsageDate",
    "ResourceId",
    "ResourceLocation",
    "MeterCategory",
    "Meter",
    "ChargeType",
]
COLUMNS += ["PricingModel", "ReservationId", "Currency"]


def machine(day: int) -> list[Any]:
    meter = ["Virtual Machines", "NC24ads A100 v4", "Usage", "OnDemand", "", "USD"]
    return [88.152, 24.0, 20260300 + day, SET.lower(), "US East", *meter]


@pytest.fixture
def served() -> CostManagement:
    return CostManagement([[machine(1), machine(2)], [machine(3)]], COLUMNS)


def collect(bills: Bills, served: CostManagement, **options: Any) -> BillRun:
    with serving(served) as url:
        served.url = url
        tree = QueryTree(
            SUB, ["2026-03"], "AmortizedCost", management_url=url, tell=lambda _: None, **options
        )
        return collect_bills(bills.store, [tree], "azure")


def throttled(header: str, seconds: str = "1") -> tuple[int, dict[str, str], Any]:
    return 429, {header: seconds}, {"error": {"code": "429", "message": "Too many requests. Please retry."}}


def test_pages_are_followed_and_their_days_loaded(bills: Bills, served: CostManagement) -> None:
    run = collect(bills, served)
    assert not run.errors, run.errors
    cost = pytest.approx(264.456)
    assert bills.sums() == [(f"azure-query:{SUB}?type=AmortizedCost", "2026-03", 3, cost, cost)]
    first = bills.charges()[0]
    assert (first["instance_key"], first["instance_hours"], first["region"]) == (SET.lower(), 24.0, "eastus")
    assert [finding.code for finding in run.findings] == ["scale_set"]
    path, body = served.asked[0]
    assert path == f"{SUB}/providers/Microsoft.CostManagement/query"
    assert body["type"] == "AmortizedCost" and body["dataset"]["granularity"] == "Daily"
    assert body["timePeriod"] == {"from": "2026-03-01T00:00:00Z", "to": "2026-03-31T23:59:59Z"}
    assert served.asked[1][1] == body


def test_throttling_waits_as_long_as_it_is_told_and_asks_for_that_page_again(
    bills: Bills, served: CostManagement, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("tenacity.nap.sleep", waits.append)
    served.refusals = [
        throttled("Retry-After"),
        throttled("x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after", "2"),
    ]

    class OnceLater(CostManagement):
        def __call__(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Any:
            if "$skiptoken" in query and len(waits) == 2:
                return throttled("Retry-After", "3")
            return super().__call__(method, path, query, body)

    later = OnceLater(served.pages, COLUMNS)
    later.refusals = served.refusals
    run = collect(bills, later)
    assert not run.errors and run.results[0].rows == 3
    assert waits == [1, 2, 3]


def test_it_gives_up_in_the_end(bills: Bills, served: CostManagement) -> None:
    served.refusals = [throttled("Retry-After", "0")] * 20
    run = collect(bills, served, longest_wait=0.01)
    assert "again and again: HTTP 429" in run.errors[0].message and not run.results


@pytest.mark.parametrize(
    ("status", "code", "message", "expected"),
    [
        (
            401,
            "ExpiredAuthenticationToken",
            "The access token expiry UTC time is earlier than current UTC time.",
            "have expired",
        ),
        (403, "RBACAccessDenied", "The client does not have authorization.", "not allowed"),
        (400, "BadRequest", "Invalid dataset grouping: 'Nonsense'", "Invalid dataset grouping"),
    ],
)
def test_a_refusal_is_said_at_once(
    bills: Bills, served: CostManagement, status: int, code: str, message: str, expected: str
) -> None:
    served.refusals = [
        (status, {"WWW-Authenticate": "Bearer"}, {"error": {"code": code, "message": message}})
    ]
    (error,) = collect(bills, served).errors
    assert expected in error.message and len(served.asked) == 1
    assert status != 401 or (error.fix or "").startswith("az login")


def test_unknown_columns_are_left_alone_and_rows_of_another_length_refused(
    bills: Bills, served: CostManagement
) -> None:
    wide = CostManagement([[[*row, "?"] for row in page] for page in served.pages], [*COLUMNS, "BrandNew"])
    assert not collect(bills, wide).errors
    torn = CostManagement([[machine(1)[:-1]]], COLUMNS)
    assert (
        "fields, as it has columns" in collect(Bills(bills.write("x/y", "").parent), torn).errors[0].message
    )


def test_an_answer_never_leads_to_another_server(bills: Bills, served: CostManagement) -> None:
    with serving(served) as url:
        served.url = "http://127.0.0.2:1"
        tree = QueryTree(SUB, ["2026-03"], "AmortizedCost", management_url=url, tell=lambda _: None)
        run = collect_bills(bills.store, [tree], "azure")
    assert "another server" in run.errors[0].message


def test_no_rows_are_no_bill(bills: Bills) -> None:
    assert "no costs of 2026-03" in collect(bills, CostManagement([[]], COLUMNS)).errors[0].message


def test_no_credentials_end_soon(bills: Bills, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    for name in ("AZURE_CLIENT_ID", "AZURE_TENANT_ID", "AZURE_CLIENT_SECRET"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setenv("HOME", str(tmp_path))
    started = time.monotonic()
    tree = QueryTree(
        SUB, ["2026-03"], "AmortizedCost", management_url="https://management.azure.com", tell=lambda _: None
    )
    run = collect_bills(bills.store, [tree], "azure")
    assert "no credentials found" in run.errors[0].message
    assert time.monotonic() - started < 30


def test_the_command(bills: Bills, served: CostManagement, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(served) as url:
        served.url = url
        bills.write(
            "gpucost.toml", f"[azure]\ncost_scope = {json.dumps(SUB)}\nmanagement_url = {json.dumps(url)}\n"
        )
        monkeypatch.chdir(bills.directory)
        result = CliRunner().invoke(app, ["collect", "azure", "--month", "2026-03", "--cost-type", "actual"])
    assert result.exit_code == 0, result.output
    assert "2026-03: 3 rows, billed 264.46" in result.stdout and served.asked[0][1]["type"] == "ActualCost"
