"""The Cost Management query API, against a stand-in that speaks its wire format."""

from __future__ import annotations

import time
from typing import Any

import pytest

from gpucost.collect.bill.azure import QueryTree
from gpucost.collect.bill.load import BillRun, collect_bills
from tests.services.bill_clouds import CostManagement, serving
from tests.text_tables import text_rows
from tests.unit.bills import Bills
from tests.unit.command import call
from tests.unit.test_bill_azure import SET, SUB

HEAD = """
    Cost UsageQuantity UsageDate ResourceId ResourceLocation MeterCategory Meter ChargeType PricingModel ReservationId Currency"""
COLUMNS = HEAD.split()


def machine(day: int) -> list[Any]:
    meter = ["Virtual Machines", "NC24ads A100 v4", "Usage", "OnDemand", "", "USD"]
    return [88.152, 24.0, 20260300 + day, SET.lower(), "US East", *meter]


@pytest.fixture
def served() -> CostManagement:
    return CostManagement([[machine(1), machine(2)], [machine(3)]], COLUMNS)


def collect(bills: Bills, served: CostManagement, at: str = "", **options: Any) -> BillRun:
    with serving(served) as url:
        served.url = at or url
        return asked(bills, management_url=url, **options)


def asked(bills: Bills, **options: Any) -> BillRun:
    tree = QueryTree(SUB, ["2026-03"], "AmortizedCost", tell=lambda _: None, **options)
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
    quota = "x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after"
    served.refusals = [throttled("Retry-After"), throttled(quota, "2"), None, throttled("Retry-After", "3")]
    run = collect(bills, served)
    assert not run.errors and run.results[0].rows == 3
    assert waits == [1, 2, 3]


REFUSED = """
401 | ExpiredAuthenticationToken | The access token expiry UTC time is earlier than current UTC time. | have expired | az login
403 | RBACAccessDenied           | The client does not have authorization.  | not allowed              |
400 | BadRequest                 | Invalid dataset grouping: 'Nonsense'     | Invalid dataset grouping |
"""


@pytest.mark.parametrize(("status", "code", "message", "expected", "fix"), text_rows(REFUSED))
def test_a_refusal_is_said_at_once(
    bills: Bills, served: CostManagement, status: str, code: str, message: str, expected: str, fix: str
) -> None:
    error = {"error": {"code": code, "message": message}}
    served.refusals = [(int(status), {"WWW-Authenticate": "Bearer"}, error)]
    (found,) = collect(bills, served).errors
    assert expected in found.message and len(served.asked) == 1
    assert (found.fix or "").startswith(fix)


def test_what_cannot_be_loaded_is_named(bills: Bills, served: CostManagement) -> None:
    def failure(served: CostManagement, **options: Any) -> str:
        run = collect(bills, served, **options)
        assert not run.results
        return run.errors[0].message

    assert "another server" in failure(served, at="http://127.0.0.2:1")
    assert "no costs of 2026-03" in failure(CostManagement([[]], COLUMNS))
    assert "fields, as it has columns" in failure(CostManagement([[machine(1)[:-1]]], COLUMNS))
    served.refusals = [throttled("Retry-After", "0")] * 20
    assert "again and again: HTTP 429" in failure(served, longest_wait=0.01)
    wide = [[[*row, "?"] for row in page] for page in served.pages]
    assert not collect(bills, CostManagement(wide, [*COLUMNS, "BrandNew"])).errors


def test_no_credentials_end_soon(nobody: None, bills: Bills, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(bills.directory))
    started = time.monotonic()
    run = asked(bills, management_url="https://management.azure.com")
    assert "no credentials found" in run.errors[0].message
    assert time.monotonic() - started < 30


def test_the_command(bills: Bills, served: CostManagement, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(served) as served.url:
        bills.write("gpucost.toml", f'azure = {{ cost_scope = "{SUB}", management_url = "{served.url}" }}')
        monkeypatch.chdir(bills.directory)
        out, _ = call("collect", "azure", "--month", "2026-03", "--cost-type", "actual")
    assert "2026-03: 3 rows, billed 264.46" in out and served.asked[0][1]["type"] == "ActualCost"
