"""Spot prices through the real client libraries: boto3 against moto and a stand-in for EC2, azure-identity and HTTP for Azure."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager, contextmanager
from datetime import UTC, date, datetime, timedelta
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs

import pytest
from typer.testing import CliRunner

from gpucost.cli.app import app
from gpucost.collect.spot import SpotResult, collect_spot
from gpucost.config.model import Aws, Azure, Config
from gpucost.store.connection import Store
from gpucost.store.prices import EvictionRate, load_eviction_rates
from gpucost.whatif.spot.market import Place, read_market
from tests.services import price_clouds
from tests.services.price_clouds import Cloud, Handler, Reply
from tests.services.price_clouds_aws import models_read_once

NOW = datetime(2026, 11, 1, 12, tzinfo=UTC)
NAMESPACE = "http://ec2.amazonaws.com/doc/2016-11-15/"
Answer = tuple[int, str, dict[str, str]]


class Answering(Handler):
    """`answer` is given path, headers and body, and gives status, text and headers."""

    answer: Callable[[str, dict[str, str], bytes], Answer]

    def do_POST(self) -> None:  # noqa: N802
        body = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        status, text, headers = type(self).answer(self.path, dict(self.headers), body)
        more = {name: value for name, value in headers.items() if name != "Content-Type"}
        self.reply(Reply(status, text.encode(), more), headers.get("Content-Type", "text/xml"))

    do_GET = do_POST  # noqa: N815


def serving(answer: Callable[[str, dict[str, str], bytes], Answer]) -> AbstractContextManager[str]:
    return price_clouds.serving(Answering, Cloud(), answer=staticmethod(answer))


def item(at: str, price: str, zone: str = "us-east-1a", instance_type: str = "p4d.24xlarge") -> str:
    return (
        f"<item><instanceType>{instance_type}</instanceType><productDescription>Linux/UNIX</productDescription>"
        f"<spotPrice>{price}</spotPrice><timestamp>{at}</timestamp><availabilityZone>{zone}</availabilityZone></item>"
    )


def page(*items: str, following: str = "") -> Answer:
    text = (
        f'<DescribeSpotPriceHistoryResponse xmlns="{NAMESPACE}"><requestId>1</requestId>'
        f"<spotPriceHistorySet>{''.join(items)}</spotPriceHistorySet><nextToken>{following}</nextToken>"
        "</DescribeSpotPriceHistoryResponse>"
    )
    return 200, text, {}


def refusal(status: int, code: str, message: str) -> Answer:
    error = f"<Error><Code>{code}</Code><Message>{message}</Message></Error>"
    text = f"<Response><Errors>{error}</Errors><RequestID>1</RequestID></Response>"
    return status, text, {}


@pytest.fixture(autouse=True, scope="module")
def models() -> Iterator[None]:
    with models_read_once():
        yield


@pytest.fixture(autouse=True)
def nobody_logged_in(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in list(os.environ):
        if name.startswith(("AWS_", "AZURE_", "IDENTITY_", "MSI_")):
            monkeypatch.delenv(name)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setenv("PATH", str(tmp_path))  # neither az nor azd


@pytest.fixture
def aws_login(nobody_logged_in: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("AWS_ACCESS_KEY_ID", "AKIATEST")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "test")


def run(
    store: Store, aws: Aws | None = None, azure: Azure | None = None, now: datetime = NOW
) -> dict[str, SpotResult]:
    config = Config(aws=aws or Aws(), azure=azure or Azure(management_url="http://127.0.0.1:9"))
    return {result.source: result for result in collect_spot(config, store, now)}


def rows(store: Store, columns: str) -> list[Any]:
    with store.read() as con:
        return sorted(con.table("spot_prices").project(columns).fetchall(), key=str)


def test_pages_and_throttling(aws_login: None, tmp_path: Path) -> None:
    forms: list[dict[str, list[str]]] = []

    def answer(path: str, headers: dict[str, str], body: bytes) -> Answer:
        form = parse_qs(body.decode())
        forms.append(form)
        if len(forms) == 1:
            return refusal(503, "RequestLimitExceeded", "Request limit exceeded.")
        if "NextToken" not in form:
            return page(item("2026-10-01T00:00:00.000Z", "9.1"), following="more")
        return page(item("2026-10-02T00:00:00.000Z", "9.2", "us-east-1b"))

    store = Store(tmp_path / "s.duckdb")
    with serving(answer) as url:
        settings = Aws(regions=["us-east-1"], endpoint_url=url)
        loaded = run(store, settings)["aws us-east-1"].load
        again = run(store, settings, now=NOW + timedelta(hours=6))["aws us-east-1"].load
    assert loaded is not None and (loaded.rows, loaded.new) == (2, 2)
    assert rows(store, "zone, at_ms, price_per_hour::DOUBLE, source, region, provider") == [
        ("us-east-1a", 1790812800000, 9.1, "aws us-east-1", "us-east-1", "aws"),
        ("us-east-1b", 1790899200000, 9.2, "aws us-east-1", "us-east-1", "aws"),
    ]
    first = forms[1]
    assert first["Filter.1.Name"] == ["instance-type"]
    assert "p4d.24xlarge" in [
        values[0] for name, values in first.items() if name.startswith("Filter.1.Value")
    ]
    assert [first["ProductDescription.1"], first["ProductDescription.2"]] == [
        ["Linux/UNIX"],
        ["Linux/UNIX (Amazon VPC)"],
    ]
    assert first["StartTime"][0].startswith("2026-08-03T12:00:00")
    # a later run goes on less an overlap
    assert forms[-1]["StartTime"][0].startswith("2026-11-01T10:00:00")
    assert again is not None and (again.new, again.known) == (0, 2)
    loads = "SELECT source, to_ms - from_ms FROM loads WHERE kind = 'spot' ORDER BY load_id"
    assert store.query(loads)[1] == [("aws us-east-1", 90 * 86_400_000), ("aws us-east-1", 8 * 3_600_000)]


def test_an_empty_region_is_noted_and_logged(aws_login: None, tmp_path: Path) -> None:
    store = Store(tmp_path / "s.duckdb")
    with serving(lambda *_: page()) as url:
        result = run(store, Aws(regions=["eu-north-1"], endpoint_url=url))["aws eu-north-1"]
    assert result.error is None
    assert result.notes == ["aws eu-north-1 told of no spot price of an accelerated instance type"]
    assert store.query("SELECT source, rows FROM loads")[1] == [("aws eu-north-1", 0)]


FAILURES = {
    "us-west-2": (refusal(400, "RequestExpired", "Request has expired."), "RequestExpired"),
    "us-west-1": (
        refusal(401, "AuthFailure", "AWS was not able to validate the provided access credentials"),
        "AuthFailure",
    ),
    "us-east-2": (refusal(403, "UnauthorizedOperation", "You are not authorized"), "UnauthorizedOperation"),
    "eu-west-1": ((200, page(item("2026-10-01T00:00:00.000Z", "9.1"))[1][:-80], {}), "half an answer"),
    "eu-west-2": (page(item("2026-10-01T00:00:00.000Z", "free")), "SpotPrice 'free' is no price"),
    "eu-west-3": (
        page(item("2026-10-01T00:00:00.000Z", "1.0"), item("2026-10-01T00:00:00.000Z", "0.0")),
        "no price above zero",
    ),
}


def test_regions_that_fail_are_named_and_the_others_are_collected(aws_login: None, tmp_path: Path) -> None:
    def answer(path: str, headers: dict[str, str], body: bytes) -> Answer:
        region = headers["Authorization"].split("/")[2]
        return FAILURES[region][0] if region in FAILURES else page(item("2026-10-01T00:00:00.000Z", "9.1"))

    store = Store(tmp_path / "s.duckdb")
    with serving(answer) as url:
        results = run(store, Aws(regions=[*FAILURES, "us-east-1"], endpoint_url=url))
    for region, (_, message) in FAILURES.items():
        error = results[f"aws {region}"].error
        assert error is not None and message in error.message and region in error.message and error.fix
    assert rows(store, "region") == [("us-east-1",)]
    assert store.query("SELECT source FROM loads")[1] == [("aws us-east-1",)]


def test_nobody_is_logged_in_anywhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    began = time.monotonic()
    result = CliRunner().invoke(app, ["collect", "spot"])
    assert time.monotonic() - began < 30
    assert result.exit_code == 1
    assert result.stdout == ""
    assert [line.split(":")[0] for line in result.stderr.splitlines()] == ["aws", "azure", "error", "fix"]


def change(day: str, price: float) -> dict[str, Any]:
    return {"effectiveDate": f"2026-{day}T00:00:00Z", "priceUSD": price}


class Azures:
    """Stands in for a managed identity's token endpoint and for Azure Resource Graph."""

    def __init__(self) -> None:
        self.questions: list[dict[str, Any]] = []
        self.tokens: list[str] = []
        self.answers: list[Answer] = []

    def __call__(self, path: str, headers: dict[str, str], body: bytes) -> Answer:
        if path.startswith("/token"):
            lasts = str(int(time.time()) + 3600)
            return (
                200,
                json.dumps(
                    {"access_token": "t0ken", "expires_on": lasts, "resource": "r", "token_type": "Bearer"}
                ),
                {"Content-Type": "application/json"},
            )
        assert path == "/providers/Microsoft.ResourceGraph/resources?api-version=2021-03-01"
        self.tokens.append(headers["Authorization"])
        self.questions.append(json.loads(body))
        return self.answers[min(len(self.questions), len(self.answers)) - 1]


def graph(data: list[dict[str, Any]], total: int, token: str | None = None) -> Answer:
    answer: dict[str, Any] = {
        "totalRecords": total,
        "count": len(data),
        "data": data,
        "facets": [],
        "resultTruncated": "false",
    }
    if token:
        answer["$skipToken"] = token
    return 200, json.dumps(answer), {"Content-Type": "application/json"}


def size(name: str, region: str, *changes: dict[str, Any]) -> dict[str, Any]:
    return {"id": f"/{name}/{region}", "size": name, "location": region, "prices": list(changes)}


@contextmanager
def azure_at(azures: Azures, monkeypatch: pytest.MonkeyPatch) -> Iterator[str]:
    with serving(azures) as url:
        monkeypatch.setenv("IDENTITY_ENDPOINT", f"{url}/token")
        monkeypatch.setenv("IDENTITY_HEADER", "secret")
        yield url


def test_azure_pages_and_throttling(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    azures = Azures()
    one = size("standard_nc24ads_a100_v4", "eastus", change("10-01", 1.5), change("09-01", 1.25))
    two = size("standard_nc24ads_a100_v4", "westeurope", change("10-01", 0.00005))
    rate = {
        "id": "/a/eastus",
        "size": "standard_nc24ads_a100_v4",
        "location": "eastus",
        "evictionRate": "5-10",
    }
    azures.answers = [
        (429, "", {"Retry-After": "0"}),
        graph([one], 2, "more"),
        graph([two], 2),
        graph(
            [rate, rate | {"location": "westeurope", "evictionRate": "20+"}, rate | {"evictionRate": None}], 3
        ),
    ]
    store = Store(tmp_path / "s.duckdb")
    with azure_at(azures, monkeypatch) as url:
        results = run(
            store, azure=Azure(management_url=url, subscriptions=["s-1"], regions=["eastus", "westeurope"])
        )
    assert results["azure"].error is None
    loaded = results["azure"].load
    assert loaded is not None
    assert loaded.new == 3
    assert rows(store, "region, zone, instance_type, product, price_per_hour::VARCHAR") == [
        ("eastus", "", "Standard_NC24ads_A100_v4", "Linux/UNIX", "1.250000000000"),
        ("eastus", "", "Standard_NC24ads_A100_v4", "Linux/UNIX", "1.500000000000"),
        ("westeurope", "", "Standard_NC24ads_A100_v4", "Linux/UNIX", "0.000050000000"),
    ]
    assert azures.tokens[0] == "Bearer t0ken"
    assert azures.questions[1]["subscriptions"] == ["s-1"]
    assert "'eastus', 'westeurope'" in azures.questions[1]["query"]
    assert azures.questions[2]["options"]["$skipToken"] == "more"
    rates = "SELECT provider, region, instance_type, band_low_percent, seen_on::VARCHAR FROM spot_eviction_rates ORDER BY ALL"
    assert store.query(rates)[1] == [
        ("azure", "eastus", "Standard_NC24ads_A100_v4", 5, "2026-11-01"),
        ("azure", "westeurope", "Standard_NC24ads_A100_v4", 20, "2026-11-01"),
    ]
    earlier = EvictionRate("azure", "eastus", "Standard_NC24ads_A100_v4", 20)
    with store.write() as con:
        load_eviction_rates(con, [earlier], date(2026, 10, 31))
    with store.read() as con:
        market = read_market(con, Config.model_validate({}), ["Standard_NC24ads_A100_v4"])
    east, west, north = (
        market.rate(Place("standard_nc24ads_a100_v4", "azure", region))
        for region in ("eastus", "westeurope", "northeurope")
    )
    # of hours with 7.5 % and 30 % evictions: -ln(1 - p); no band of the other region was collected
    assert (east.per_hour, east.as_of, west.per_hour) == (0.078, "2026-11-01", 0.3567)
    assert (north.low, north.high) == (0.001, 0.4)


@pytest.mark.parametrize(
    ("answer", "message"),
    [
        (
            (
                401,
                json.dumps(
                    {"error": {"code": "ExpiredAuthenticationToken", "message": "The access token expired"}}
                ),
                {},
            ),
            "expired",
        ),
        (graph([size("standard_nc24ads_a100_v4", "eastus", change("10-01", 1.5))], 5), "1 of 5 rows"),
        (graph([size("standard_nc24ads_a100_v4", "eastus", change("10-01", -1))], 1), "no price above zero"),
        ((200, "{}", {}), "without data"),
    ],
)
def test_azure_refuses_or_answers_half(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, answer: Answer, message: str
) -> None:
    azures = Azures()
    azures.answers = [answer]
    store = Store(tmp_path / "s.duckdb")
    with azure_at(azures, monkeypatch) as url:
        result = run(store, azure=Azure(management_url=url))["azure"]
    assert result.error is not None and message in result.error.message
    assert rows(store, "*") == []
