"""The export in BigQuery, against a stand-in that speaks its REST API."""

from __future__ import annotations

import json
import time
from collections.abc import Iterator

import pytest

from gpucost.clouds import NoCredentials
from gpucost.collect.bill.gcp import BigQueryTree
from gpucost.collect.bill.load import BillRun, collect_bills
from gpucost.errors import ConfigError
from tests.services.bill_clouds import BigQuery, error, serving
from tests.unit.bills import Bills
from tests.unit.command import call
from tests.unit.test_bill_gcp import CORE, row

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
    tree = BigQueryTree(TABLE, [month], max_gib=max_gib, tell=heard.append, endpoint=url)
    return collect_bills(bills.store, [tree], "gcp"), heard


def test_a_month_is_read_whole_in_pages_after_its_estimate(bills: Bills, served: BigQuery, url: str) -> None:
    run, heard = collect(bills, url)
    assert not run.errors, run.errors
    assert bills.sums() == [(SOURCE, "2026-03", 5, pytest.approx(1.8), pytest.approx(1.8))]
    assert "3.00 GiB, about $0.02" in heard[0]
    dry, real = served.jobs
    assert dry["dryRun"] is True and real["query"]["maximumBytesBilled"] == str(100 << 30)
    query = real["query"]["query"]
    assert f"FROM `{TABLE}`" in query
    assert "_PARTITIONTIME >= @since" in query and "invoice.month = @month" in query
    # columns of ours that the table has, and no others
    assert "credits" in query and "brand_new" not in query and "consumption_model" not in query
    parameters = {one["name"]: one["parameterValue"]["value"] for one in real["query"]["queryParameters"]}
    assert parameters["month"] == "202603" and parameters["since"].startswith("2026-03-01")


def test_corrections_replace_the_month(bills: Bills, served: BigQuery, url: str) -> None:
    served.partitioning = {"type": "DAY", "field": "usage_start_time"}
    collect(bills, url)
    assert "@since" not in served.jobs[1]["query"]["query"], "partitions of usage time are all read"
    served.rows["202603"].append(json.dumps(row(CORE, -0.36, 2, export_time="2026-03-20T00:00:00Z")))
    collect(bills, url)
    asked = len(served.jobs)
    run, _ = collect(bills, url)
    assert not run.errors and len(served.jobs) == asked, "a table as it was is not queried again"
    assert bills.sums() == [(SOURCE, "2026-03", 6, pytest.approx(1.44), pytest.approx(1.44))]


def test_throttling_is_waited_for(
    bills: Bills, served: BigQuery, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    waits = list[float]()
    monkeypatch.setattr("google.api_core.retry.retry_unary.time.sleep", waits.append)
    served.refusals = [error(429, "rateLimitExceeded")] * 2
    run, _ = collect(bills, url)
    assert not run.errors and run.results[0].rows == 5 and len(waits) == 2


def test_what_is_refused_is_said_at_once(bills: Bills, served: BigQuery, url: str) -> None:
    served.refusals = [error(401, "authError")]
    expired = collect(bills, url)[0].errors[0]
    assert "expired" in expired.message and expired.fix == "gcloud auth application-default login"
    capped = collect(bills, url, max_gib=2)[0].errors[0]
    assert "more than the cap of 2 GiB; nothing was read" in capped.message
    assert "--max-gib 4" in str(capped.fix)
    assert [job.get("dryRun") for job in served.jobs] == [True]
    assert "no rows of invoice month 2026-02" in collect(bills, url, "2026-02")[0].errors[0].message
    served.fields = ["a", "b"]
    assert "is no usage cost export" in collect(bills, url)[0].errors[0].message
    with pytest.raises(ConfigError, match="is no BigQuery table"):
        BigQueryTree("billing; drop table", ["2026-03"], max_gib=1, tell=print)


def test_no_credentials_end_soon(nobody: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_GCE_CHECK")
    started = time.monotonic()
    with pytest.raises(NoCredentials, match="no credentials found"):
        BigQueryTree(TABLE, ["2026-03"], max_gib=1, tell=print).entries()
    assert time.monotonic() - started < 30


def test_the_command_tells_the_estimate_and_loads(
    bills: Bills, served: BigQuery, url: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    bills.write("gpucost.toml", f'gcp = {{ billing_table = "{TABLE}", bigquery_endpoint = "{url}" }}')
    monkeypatch.chdir(bills.directory)
    command = ("collect", "gcp", "--month", "2026-03")
    assert "3.00 GiB" in call(*command, "--estimate")[1]
    assert [job.get("dryRun") for job in served.jobs] == [True]
    assert f"{SOURCE} 2026-03: 5 rows" in call(*command)[0]
