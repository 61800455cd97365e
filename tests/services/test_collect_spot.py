"""Spot prices through the real client libraries: boto3 with a stand-in for EC2, azure-identity and HTTP for Azure."""

from __future__ import annotations

import json
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest

from gpucost.collect.spot import SpotResult, collect_spot
from gpucost.config.model import Aws, Azure, Config
from gpucost.store.connection import Store
from gpucost.store.prices import EvictionRate, load_eviction_rates
from gpucost.whatif.spot.interruptions import Place
from gpucost.whatif.spot.market import read_rates
from tests.services import price_clouds
from tests.services.price_clouds import Cloud, Handler, Reply, rows, shown, word_rows
from tests.text_tables import text_rows
from tests.unit.command import call

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
A100 = "Standard_NC24ads_A100_v4"
Answers = Callable[[str, dict[str, str], bytes], Reply]


class Answering(Handler):
    """Serve; `answer` receives path, headers and body."""

    answer: Answers

    def do_POST(self) -> None:  # noqa: N802
        reply = type(self).answer(self.path, dict(self.headers), self.received())
        kind = "text/xml" if isinstance(reply.body, bytes) else "application/json"
        self.respond(reply.status, reply.body, {"Content-Type": kind, **reply.headers})

    do_GET = do_POST  # noqa: N815


def serving(answer: Answers) -> AbstractContextManager[str]:
    return price_clouds.serving(Answering, Cloud(), answer=staticmethod(answer))


def item(at: str, price: str, zone: str = "us-east-1a") -> str:
    return f"""<item><instanceType>p4d.24xlarge</instanceType><productDescription>Linux/UNIX</productDescription>
        <spotPrice>{price}</spotPrice><timestamp>{at}</timestamp><availabilityZone>{zone}</availabilityZone></item>"""


def page(*items: str, following: str = "") -> Reply:
    text = f"""<DescribeSpotPriceHistoryResponse xmlns="http://ec2.amazonaws.com/doc/2016-11-15/"><requestId>1</requestId>
        <spotPriceHistorySet>{"".join(items)}</spotPriceHistorySet>
        <nextToken>{following}</nextToken></DescribeSpotPriceHistoryResponse>"""
    return Reply(200, text.encode())


def refusal(status: int, code: str) -> Reply:
    error = f"<Response><Errors><Error><Code>{code}</Code><Message>no</Message></Error></Errors></Response>"
    return Reply(status, error.encode())


@pytest.fixture(autouse=True)
def no_programs(nobody: None, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("PATH", str(tmp_path))  # neither az nor azd


def run(
    store: Store, aws: Aws | None = None, azure: Azure | None = None, now: datetime = NOW
) -> dict[str, SpotResult]:
    config = Config(aws=aws or Aws(), azure=azure or Azure(management_url="http://127.0.0.1:9"))
    return {result.source: result for result in collect_spot(config, store, now, lambda _: None)}


def test_pages_are_read_and_throttling_is_waited_out(aws_login: None, store: Store) -> None:
    forms: list[dict[str, list[str]]] = []

    def answer(path: str, headers: dict[str, str], body: bytes) -> Reply:
        forms.append(parse_qs(body.decode()))
        if len(forms) == 1:
            return refusal(503, "RequestLimitExceeded")
        if "NextToken" not in forms[-1]:
            return page(item("2026-10-01T00:00:00.000Z", "9.1"), following="more")
        return page(item("2026-10-02T00:00:00.000Z", "9.2", "us-east-1b"))

    with serving(answer) as url:
        settings = Aws(regions=["us-east-1"], endpoint_url=url)
        loaded = run(store, settings)["aws us-east-1"].load
        again = run(store, settings, now=NOW + timedelta(hours=6))["aws us-east-1"].load
    assert loaded is not None and (loaded.rows, loaded.new) == (2, 2)
    columns = "zone, at_ms, price_per_hour, source, region, provider"
    assert [tuple(row) for row in shown(store, columns, "spot_prices")] == text_rows("""
        us-east-1a | 1790812800000 | 9.1 | aws us-east-1 | us-east-1 | aws
        us-east-1b | 1790899200000 | 9.2 | aws us-east-1 | us-east-1 | aws""")
    first = forms[1]
    assert first["Filter.1.Name"] == ["instance-type"]
    assert ["p4d.24xlarge"] in [values for name, values in first.items() if name.startswith("Filter.1.Value")]
    products = first["ProductDescription.1"] + first["ProductDescription.2"]
    assert products == ["Linux/UNIX", "Linux/UNIX (Amazon VPC)"]
    assert first["StartTime"][0].startswith("2026-08-03T12:00:00")
    # a later run continues with an overlap
    assert forms[-1]["StartTime"][0].startswith("2026-11-01T10:00:00")
    assert again is not None and (again.new, again.old) == (0, 2)
    loads = rows(store, "SELECT source, to_ms - from_ms FROM loads WHERE kind = 'spot' ORDER BY load_id")
    assert loads == [("aws us-east-1", 90 * 86_400_000), ("aws us-east-1", 8 * 3_600_000)]


def test_empty_region_is_recorded_and_logged(aws_login: None, store: Store) -> None:
    with serving(lambda *_: page()) as url:
        result = run(store, Aws(regions=["eu-north-1"], endpoint_url=url))["aws eu-north-1"]
    assert result.error is None
    assert result.notes == ["aws eu-north-1 has no spot prices of accelerated instance types"]
    assert rows(store, "SELECT source, rows FROM loads") == [("aws eu-north-1", 0)]


MIDNIGHT = "2026-10-01T00:00:00.000Z"
FAILURES = {
    "us-west-2": (refusal(400, "RequestExpired"), "RequestExpired"),
    "us-west-1": (refusal(401, "AuthFailure"), "AuthFailure"),
    "us-east-2": (refusal(403, "UnauthorizedOperation"), "UnauthorizedOperation"),
    "eu-west-1": (Reply(200, page(item(MIDNIGHT, "9.1")).body[:-80]), "an incomplete answer"),
    "eu-west-2": (page(item(MIDNIGHT, "free")), "SpotPrice 'free' is not a price"),
    "eu-west-3": (page(item(MIDNIGHT, "1.0"), item(MIDNIGHT, "0.0")), "not a price above zero"),
}


def test_failed_regions_are_named_and_others_are_collected(aws_login: None, store: Store) -> None:
    def answer(path: str, headers: dict[str, str], body: bytes) -> Reply:
        region = headers["Authorization"].split("/")[2]
        return FAILURES[region][0] if region in FAILURES else page(item(MIDNIGHT, "9.1"))

    with serving(answer) as url:
        results = run(store, Aws(regions=[*FAILURES, "us-east-1"], endpoint_url=url))
    for region, (_, message) in FAILURES.items():
        error = results[f"aws {region}"].error
        assert error is not None and message in error.message and region in error.message and error.fix
    assert rows(store, "SELECT region FROM spot_prices") == [("us-east-1",)]
    assert rows(store, "SELECT source FROM loads") == [("aws us-east-1",)]


def test_missing_logins_are_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    began = time.monotonic()
    out, err = call("collect", "spot", code=1)
    assert time.monotonic() - began < 30 and out == ""
    assert [line.split(":")[0] for line in err.splitlines()] == ["aws", "azure", "error", "fix"]


def graph(data: list[dict[str, Any]], total: int = 1, token: str | None = None) -> Reply:
    """Return an answer of Azure Resource Graph."""
    counts = {"totalRecords": total, "count": len(data), "resultTruncated": "false"}
    return Reply(200, {**counts, "data": data, "facets": [], "$skipToken": token})


def size(region: str, *prices: float) -> dict[str, Any]:
    """Return prices of a machine since October, each with one a month earlier."""
    changes = [
        {"effectiveDate": f"2026-{10 - ago:02}-01T00:00:00Z", "priceUSD": price}
        for ago, price in enumerate(prices)
    ]
    return {"id": f"/{region}", "size": A100.lower(), "location": region, "prices": changes}


@contextmanager
def azure_at(answers: list[Reply], monkeypatch: pytest.MonkeyPatch) -> Iterator[tuple[str, list[Any]]]:
    """Serve a managed identity's token endpoint and Azure Resource Graph with these answers; record its queries."""
    queries: list[Any] = []

    def answer(path: str, headers: dict[str, str], body: bytes) -> Reply:
        if path.startswith("/token"):
            token = {
                "access_token": "t0ken",
                "resource": "r",
                "token_type": "Bearer",
                "expires_on": "4000000000",
            }
            return Reply(200, token)
        assert path == "/providers/Microsoft.ResourceGraph/resources?api-version=2021-03-01"
        assert headers["Authorization"] == "Bearer t0ken"
        queries.append(json.loads(body))
        return answers[min(len(queries), len(answers)) - 1]

    with serving(answer) as url:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{url}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "secret")
        yield url, queries


def test_azure_pages_are_read_and_throttling_is_waited_out(
    store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    rate = {"id": "/a", "size": A100.lower(), "location": "eastus", "evictionRate": "5-10"}
    rates = [rate, rate | {"location": "westeurope", "evictionRate": "20+"}, rate | {"evictionRate": None}]
    pages = graph([size("eastus", 1.5, 1.25)], 2, "more"), graph([size("westeurope", 0.00005)], 2)
    answers = [Reply(429, b"", {"Retry-After": "0"}), *pages, graph(rates, 3)]
    with azure_at(answers, monkeypatch) as (url, queries):
        settings = Azure(management_url=url, subscriptions=["s-1"], regions=["eastus", "westeurope"])
        result = run(store, azure=settings)["azure"]
    assert result.error is None and result.load is not None and result.load.new == 3
    assert shown(store, "region, zone, instance_type, product, price_per_hour", "spot_prices") == word_rows("""
        eastus     - Standard_NC24ads_A100_v4 Linux/UNIX 1.25
        eastus     - Standard_NC24ads_A100_v4 Linux/UNIX 1.5
        westeurope - Standard_NC24ads_A100_v4 Linux/UNIX 0.00005
    """)
    assert queries[1]["subscriptions"] == ["s-1"] and "'eastus', 'westeurope'" in queries[1]["query"]
    assert queries[2]["options"]["$skipToken"] == "more"
    columns = "provider, region, instance_type, band_low_percent, seen_on"
    assert shown(store, columns, "spot_eviction_rates") == word_rows("""
        azure eastus     Standard_NC24ads_A100_v4 5  2026-11-01
        azure westeurope Standard_NC24ads_A100_v4 20 2026-11-01
    """)
    with store.write() as con:
        load_eviction_rates(con, [EvictionRate("azure", "eastus", A100, 20)], date(2026, 10, 31))
    with store.read() as con:
        rate = read_rates(con)
    regions = ("eastus", "westeurope", "northeurope")
    one, two, three = (rate(Place(A100.lower(), "azure", region)) for region in regions)
    # from 7.5 % and 30 % evictions an hour: -ln(1 - p); no band of the other region was collected
    assert (one.per_hour, one.as_of, two.per_hour) == (0.078, "2026-11-01", 0.3567)
    assert (three.low, three.high) == (0.001, 0.4)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (Reply(401, {"error": {"code": "ExpiredAuthenticationToken", "message": "it expired"}}), "expired"),
        (graph([size("eastus", 1.5)], 5), "1 of 5 rows"),
        (graph([size("eastus", -1)]), "not a price above zero"),
        (Reply(200, {}), "answer has no data"),
    ],
)
def test_azure_refusals_and_partial_answers_are_errors(
    store: Store, monkeypatch: pytest.MonkeyPatch, answer: Reply, message: str
) -> None:
    with azure_at([answer], monkeypatch) as (url, _):
        result = run(store, azure=Azure(management_url=url))["azure"]
    assert result.error is not None and message in result.error.message
    assert rows(store, "FROM spot_prices") == []
