"""Queried bills, with stand-ins in the wire formats of the clouds: BigQuery's REST API, Azure's query API."""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any
from urllib.parse import parse_qs, urlsplit

import pytest

from gpucost.clouds import NoCredentials
from gpucost.collect.bill.azure import QueryTree
from gpucost.collect.bill.gcp import BigQueryTree
from gpucost.collect.bill.load import BillRun, collect_bills
from gpucost.errors import ConfigError
from tests import loopback
from tests.loopback import Quiet
from tests.text_tables import text_rows, words
from tests.unit.bills import Bills
from tests.unit.command import call
from tests.unit.test_bill_azure import SET, SUB
from tests.unit.test_bill_gcp import CORE, row

Answer = tuple[int, dict[str, str], Any]
Handler = Callable[[str, str, dict[str, list[str]], Any], Answer]
BIGQUERY_COLUMNS = (
    "billing_account_id service sku usage_start_time usage_end_time cost credits invoice brand_new"
)


@contextmanager
def serving(handle: Handler) -> Iterator[str]:
    """Serve on a free loopback port and yield the URL; `handle(method, path, query, body)` returns (status, headers, JSON)."""

    class Server(Quiet):
        protocol_version = "HTTP/1.1"

        def _serve(self) -> None:
            url, body = urlsplit(self.path), json.loads(self.received() or "null")
            status, headers, answer = handle(self.command, url.path, parse_qs(url.query), body)
            self.respond(status, answer, headers)

        do_GET = do_POST = _serve  # noqa: N815

    with loopback.serving(Server) as url:
        yield url


class BigQuery:
    """A table of JSON texts by invoice month, with jobs.insert, jobs.get, jobs.getQueryResults and tables.get.

    `refusals` are the first answers, one each; `jobs` are the requested configurations. A query reads 3 GiB.
    """

    page, read = 2, 3 << 30

    def __init__(self, rows: dict[str, list[str]]) -> None:
        self.rows, self.fields = rows, BIGQUERY_COLUMNS.split()
        self.refusals: list[Answer] = []
        self.jobs: list[dict[str, Any]] = []
        self.partitioning = {"type": "DAY"}

    def __call__(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answer:
        if self.refusals:
            return self.refusals.pop(0)
        if "/tables/" in path:
            return 200, {}, self._table()
        if method == "POST":
            job = body["configuration"]
            if int(job["query"].get("maximumBytesBilled", self.read)) < self.read:
                return google_error(400, "bytesBilledLimitExceeded")
            self.jobs.append(job)
            return 200, {}, self._job(len(self.jobs) - 1)
        number = int(path.rpartition("-")[2])
        if "/jobs/" in path:
            return 200, {}, self._job(number)
        return 200, {}, self._results(number, query)

    def _table(self) -> dict[str, Any]:
        schema = {"fields": [{"name": name, "type": "STRING", "mode": "NULLABLE"} for name in self.fields]}
        place = words("projectId=ml-proj datasetId=billing tableId=gcp_billing_export_resource_v1_X")
        table = {"tableReference": place, "schema": schema, "timePartitioning": self.partitioning}
        return {**table, "numRows": str(sum(map(len, self.rows.values())))}

    def _job(self, number: int) -> dict[str, Any]:
        reference = words(f"projectId=ml-proj jobId=job-{number} location=US")
        read = {"totalBytesProcessed": str(self.read)}
        job = {"jobReference": reference, "configuration": self.jobs[number], "status": {"state": "DONE"}}
        return {**job, "statistics": {**read, "query": read}}

    def _results(self, number: int, query: dict[str, list[str]]) -> dict[str, Any]:
        listed = self.jobs[number]["query"]["queryParameters"]
        parameters = {one["name"]: one["parameterValue"]["value"] for one in listed}
        lines = self.rows.get(parameters["month"], [])
        start, most = (int(query.get(name, ["0"])[0]) for name in ("pageToken", "maxResults"))
        end = start + min(most or 9, self.page)
        return self._job(number) | {
            "jobComplete": True, "totalRows": str(len(lines)), "schema": {"fields": [{"name": "line", "type": "STRING"}]},
            "rows": [{"f": [{"v": line}]} for line in lines[start:end]], "pageToken": str(end) if end < len(lines) else None,
        }  # fmt: skip


class CostManagement:
    """Rows of the query API, in pages with `nextLink`. `refusals` come first, unless None."""

    def __init__(self, pages: list[list[list[Any]]], columns: list[str]) -> None:
        self.pages = pages
        self.columns = columns
        self.refusals: list[Answer | None] = []
        self.asked: list[tuple[str, Any]] = []
        self.url = ""

    def __call__(self, method: str, path: str, query: dict[str, list[str]], body: Any) -> Answer:
        assert method == "POST" and re.search("/providers/Microsoft.CostManagement/query$", path)
        self.asked.append((path, body))
        if self.refusals and (refusal := self.refusals.pop(0)):
            return refusal
        page = int(query.get("$skiptoken", ["0"])[0])
        more = f"{self.url}{path}?api-version=2025-03-01&$skiptoken={page + 1}"
        columns = [{"name": name, "type": "String"} for name in self.columns]
        link = more if page + 1 < len(self.pages) else None
        return 200, {}, {"properties": {"nextLink": link, "columns": columns, "rows": self.pages[page]}}


def google_error(code: int, reason: str, **headers: str) -> Answer:
    """Return Google's answer to a refused request."""
    detail = words(f"reason={reason} message={reason} domain=global")
    return code, headers, {"error": {"code": code, "message": reason, "errors": [detail]}}


HEAD = """
    Cost UsageQuantity UsageDate ResourceId ResourceLocation MeterCategory Meter ChargeType PricingModel ReservationId Currency"""
COST_COLUMNS = HEAD.split()


def machine(day: int) -> list[Any]:
    meter = ["Virtual Machines", "NC24ads A100 v4", "Usage", "OnDemand", "", "USD"]
    return [88.152, 24.0, 20260300 + day, SET.lower(), "US East", *meter]


@pytest.fixture
def costs() -> CostManagement:
    return CostManagement([[machine(1), machine(2)], [machine(3)]], COST_COLUMNS)


def query(bills: Bills, costs: CostManagement, at: str = "", **options: Any) -> BillRun:
    with serving(costs) as url:
        costs.url = at or url
        return asked(bills, management_url=url, **options)


def asked(bills: Bills, **options: Any) -> BillRun:
    tree = QueryTree(SUB, "2026-03", "AmortizedCost", show_progress=lambda _: None, **options)
    return collect_bills(bills.store, [tree], "azure")


def throttled(header: str, seconds: str = "1") -> tuple[int, dict[str, str], Any]:
    return 429, {header: seconds}, {"error": {"code": "429", "message": "Too many requests. Please retry."}}


def test_pages_are_followed_and_their_days_are_loaded(bills: Bills, costs: CostManagement) -> None:
    run = query(bills, costs)
    assert not run.errors, run.errors
    cost = pytest.approx(264.456)
    assert bills.sums() == [(f"azure-query:{SUB}?type=AmortizedCost", "2026-03", 3, cost, cost)]
    first = bills.charges()[0]
    assert (first["instance_key"], first["instance_hours"], first["region"]) == (SET.lower(), 24.0, "eastus")
    assert [finding.code for finding in run.findings] == ["scale_set"]
    path, body = costs.asked[0]
    assert path == f"{SUB}/providers/Microsoft.CostManagement/query"
    assert body["type"] == "AmortizedCost" and body["dataset"]["granularity"] == "Daily"
    assert body["timePeriod"] == {"from": "2026-03-01T00:00:00Z", "to": "2026-03-31T23:59:59Z"}
    assert costs.asked[1][1] == body


def test_throttled_page_is_requested_again_after_the_given_wait(
    bills: Bills, costs: CostManagement, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits: list[float] = []
    monkeypatch.setattr("tenacity.nap.sleep", waits.append)
    quota = "x-ms-ratelimit-microsoft.costmanagement-qpu-retry-after"
    costs.refusals = [throttled("Retry-After"), throttled(quota, "2"), None, throttled("Retry-After", "3")]
    run = query(bills, costs)
    assert not run.errors and run.results[0].rows == 3
    assert waits == [1, 2, 3]


REFUSED = """
401 | ExpiredAuthenticationToken | The access token expiry UTC time is earlier than current UTC time. | have expired | az login
403 | RBACAccessDenied           | The client does not have authorization.  | not allowed              |
400 | BadRequest                 | Invalid dataset grouping: 'Nonsense'     | Invalid dataset grouping |
"""


@pytest.mark.parametrize(("status", "code", "message", "expected", "fix"), text_rows(REFUSED))
def test_refusal_is_reported_at_once(
    bills: Bills, costs: CostManagement, status: str, code: str, message: str, expected: str, fix: str
) -> None:
    error = {"error": {"code": code, "message": message}}
    costs.refusals = [(int(status), {"WWW-Authenticate": "Bearer"}, error)]
    (found,) = query(bills, costs).errors
    assert expected in found.message and len(costs.asked) == 1
    assert (found.fix or "").startswith(fix)


def test_unloadable_answers_are_named(bills: Bills, costs: CostManagement) -> None:
    def failure(costs: CostManagement, **options: Any) -> str:
        run = query(bills, costs, **options)
        assert not run.results
        return run.errors[0].message

    assert "another server" in failure(costs, at="http://127.0.0.2:1")
    assert "no costs in 2026-03" in failure(CostManagement([[]], COST_COLUMNS))
    assert "fields, one per column" in failure(CostManagement([[machine(1)[:-1]]], COST_COLUMNS))
    costs.refusals = [throttled("Retry-After", "0")] * 20
    assert "failing repeatedly: HTTP 429" in failure(costs, longest_wait=0.01)
    wide = [[[*row, "?"] for row in page] for page in costs.pages]
    assert not query(bills, CostManagement(wide, [*COST_COLUMNS, "BrandNew"])).errors


def test_missing_azure_credentials_end_quickly(
    nobody: None, bills: Bills, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(bills.directory))
    started = time.monotonic()
    run = asked(bills, management_url="https://management.azure.com")
    assert "no credentials found" in run.errors[0].message
    assert time.monotonic() - started < 30


def test_command_loads_azure_costs(
    bills: Bills, costs: CostManagement, monkeypatch: pytest.MonkeyPatch
) -> None:
    with serving(costs) as costs.url:
        bills.write("gpucost.toml", f'azure = {{ cost_scope = "{SUB}", management_url = "{costs.url}" }}')
        monkeypatch.chdir(bills.directory)
        out, _ = call("collect", "azure", "--month", "2026-03", "--cost-type", "actual")
    assert "2026-03: 3 rows, billed 264.46" in out and costs.asked[0][1]["type"] == "ActualCost"


TABLE = "ml-proj.billing.gcp_billing_export_resource_v1_X"
SOURCE = f"bigquery://{TABLE}"


@pytest.fixture
def served() -> BigQuery:
    return BigQuery({"202603": [json.dumps(row(CORE, 0.36, hour)) for hour in range(5)]})


@pytest.fixture
def url(served: BigQuery) -> Iterator[str]:
    with serving(served) as url:
        yield url


def collect(
    bills: Bills, url: str, month: str = "2026-03", max_gib: float = 100.0
) -> tuple[BillRun, list[str]]:
    heard: list[str] = []
    tree = BigQueryTree(TABLE, month, max_gib=max_gib, show_progress=heard.append, endpoint=url)
    return collect_bills(bills.store, [tree], "gcp"), heard


def test_whole_month_is_read_in_pages_after_its_estimate(bills: Bills, served: BigQuery, url: str) -> None:
    run, heard = collect(bills, url)
    assert not run.errors, run.errors
    assert bills.sums() == [(SOURCE, "2026-03", 5, pytest.approx(1.8), pytest.approx(1.8))]
    assert "3.00 GiB, about $0.02" in heard[0]
    dry, real = served.jobs
    assert dry["dryRun"] is True and real["query"]["maximumBytesBilled"] == str(100 << 30)
    query = real["query"]["query"]
    assert f"FROM `{TABLE}`" in query
    assert "_PARTITIONTIME >= @since" in query and "invoice.month = @month" in query
    # only our columns that exist in the table
    assert "credits" in query and "brand_new" not in query and "consumption_model" not in query
    parameters = {one["name"]: one["parameterValue"]["value"] for one in real["query"]["queryParameters"]}
    assert parameters["month"] == "202603" and parameters["since"].startswith("2026-03-01")


def test_corrections_replace_the_month(bills: Bills, served: BigQuery, url: str) -> None:
    served.partitioning = {"type": "DAY", "field": "usage_start_time"}
    collect(bills, url)
    assert "@since" not in served.jobs[1]["query"]["query"], "partitions of usage time are all read"
    served.rows["202603"].append(json.dumps(row(CORE, -0.36, 2, export_time="2026-03-20T00:00:00Z")))
    collect(bills, url)
    before = len(served.jobs)
    run, _ = collect(bills, url)
    assert not run.errors and len(served.jobs) == before, "a table as it was is not queried again"
    assert bills.sums() == [(SOURCE, "2026-03", 6, pytest.approx(1.44), pytest.approx(1.44))]


def test_throttling_is_waited_out(
    bills: Bills, served: BigQuery, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = list[float]()
    monkeypatch.setattr("google.api_core.retry.retry_unary.time.sleep", waits.append)
    served.refusals = [google_error(429, "rateLimitExceeded")] * 2
    run, _ = collect(bills, url)
    assert not run.errors and run.results[0].rows == 5 and len(waits) == 2


def test_bigquery_refusal_is_reported_at_once(bills: Bills, served: BigQuery, url: str) -> None:
    served.refusals = [google_error(401, "authError")]
    expired = collect(bills, url)[0].errors[0]
    assert "expired" in expired.message and expired.fix == "gcloud auth application-default login"
    capped = collect(bills, url, max_gib=2)[0].errors[0]
    assert "more than the limit of 2 GiB; no data was read" in capped.message
    assert "--max-gib 4" in str(capped.fix)
    assert [job.get("dryRun") for job in served.jobs] == [True]
    assert "no rows of invoice month 2026-02" in collect(bills, url, "2026-02")[0].errors[0].message
    served.fields = ["a", "b"]
    assert "is not a usage cost export" in collect(bills, url)[0].errors[0].message
    with pytest.raises(ConfigError, match="invalid BigQuery table"):
        BigQueryTree("billing; drop table", "2026-03", max_gib=1, show_progress=print)


def test_missing_credentials_end_quickly(nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_GCE_CHECK")
    started = time.monotonic()
    with pytest.raises(NoCredentials, match="no credentials found"):
        BigQueryTree(TABLE, ["2026-03"], max_gib=1, show_progress=print).entries()
    assert time.monotonic() - started < 30


def test_command_prints_the_estimate_and_loads(
    bills: Bills, served: BigQuery, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bills.write("gpucost.toml", f'gcp = {{ billing_table = "{TABLE}", bigquery_endpoint = "{url}" }}')
    monkeypatch.chdir(bills.directory)
    command = ("collect", "gcp", "--month", "2026-03")
    assert "3.00 GiB" in call(*command, "--estimate")[1]
    assert [job.get("dryRun") for job in served.jobs] == [True]
    assert f"{SOURCE} 2026-03: 5 rows" in call(*command)[0]
