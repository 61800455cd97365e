"""AWS' list prices through boto3: EC2 is moto, the price list and Savings Plans a stand-in with their wire formats."""

from __future__ import annotations

import shutil
from collections.abc import Iterator
from datetime import datetime
from pathlib import Path

import pytest

from gpucost.collect.prices import PriceResult, public
from gpucost.config.model import Aws, Config
from gpucost.store.connection import Store
from tests.services.price_clouds import NOW, Cloud, Reply, check_failure, collected, rows, shown, words
from tests.services.price_clouds_aws import aws_cloud, aws_product, aws_rate

EAST = "us-east-1"
RESERVED = [
    ("1yr", "standard", "No Upfront", "", "39.0000000000"),
    ("1yr", "standard", "All Upfront", "318864", "0.0000000000"),
    ("3yr", "convertible", "Partial Upfront", "262800", "10.0000000000"),
]
PRODUCTS = [
    aws_product("p5.48xlarge", EAST, "55.0400000000", RESERVED),
    aws_product("p5.48xlarge", EAST, "60.0000000000", operatingSystem="RHEL"),
    aws_product("p5.48xlarge", EAST, "61.0000000000", tenancy="Dedicated"),
    aws_product("p5.48xlarge", EAST, "62.0000000000", preInstalledSw="SQL Std"),
    aws_product("p5.48xlarge", EAST, "63.0000000000", capacitystatus="UnusedCapacityReservation"),
    aws_product("p5.48xlarge", EAST, "0.0000000000", marketoption="CapacityBlock"),
    aws_product("g6f.large", EAST, "0.2024000000"),
    aws_product("trn1.2xlarge", EAST, "1.3437500000"),
    aws_product("g5.xlarge", EAST, "0.0000000000"),
    aws_product("m7i.large", EAST, "0.1008000000"),
    aws_product("g5.xlarge", "eu-west-1", "1.1230000000"),
]
RATES = [
    aws_rate("p5.48xlarge", EAST, "44.1"),
    aws_rate("p5.48xlarge", EAST, "41.2", plan="EC2Instance", payment="All Upfront", years=3),
    aws_rate("p5.48xlarge", EAST, "9.9", usageType="UnusedBox:p5.48xlarge"),
    aws_rate("p5.48xlarge", EAST, "9.8", operation="RunInstances:0002"),
    aws_rate("p5.48xlarge", "eu-west-1", "55.5"),
    aws_rate("m7i.large", EAST, "0.07"),
]


@pytest.fixture(scope="module")
def running() -> Iterator[Cloud]:
    with aws_cloud(PRODUCTS, RATES) as cloud:
        yield cloud


@pytest.fixture
def cloud(running: Cloud, monkeypatch: pytest.MonkeyPatch) -> Cloud:
    return anew(running, monkeypatch)


def anew(running: Cloud, environment: pytest.MonkeyPatch) -> Cloud:
    for name in ("AWS_PROFILE", "AWS_SESSION_TOKEN"):
        environment.delenv(name, raising=False)
    environment.setenv("AWS_ACCESS_KEY_ID", "testing")
    environment.setenv("AWS_SECRET_ACCESS_KEY", "testing")
    environment.setenv("AWS_EC2_METADATA_DISABLED", "true")
    running.questions.clear()
    running.trick = lambda _service, _number: None
    return running


def collect(cloud: Cloud, store: Store, *regions: str, now: datetime = NOW) -> PriceResult:
    return collected("aws", Config(aws=Aws(endpoint_url=cloud.url, regions=list(regions))), store, now=now)


@pytest.fixture(scope="module")
def first(running: Cloud, tmp_path_factory: pytest.TempPathFactory) -> tuple[Store, PriceResult]:
    """A store into which everything was collected; who changes it takes a copy."""
    store = Store(tmp_path_factory.mktemp("collected") / "store.duckdb")
    with pytest.MonkeyPatch.context() as environment:
        result = collect(anew(running, environment), store)
    # everything came in pages, and the price list is served in one region for all
    assert running.count("pricing") > 1 and running.count("savingsplans") > 1
    return store, result


def test_all_ways_to_buy_an_instance(first: tuple[Store, PriceResult]) -> None:
    store, result = first
    assert result.ok, result.error
    assert result.regions == (EAST,)
    columns = "instance_type, purchase_option, term_years, payment_option, offering, price_per_hour"
    assert shown(store, columns) == words("""
        g6f.large     on_demand    0 -               -            0.2024
        p5.48xlarge   on_demand    0 -               -            55.04
        p5.48xlarge   reserved     1 all_upfront     standard     36.4
        p5.48xlarge   reserved     1 no_upfront      standard     39
        p5.48xlarge   reserved     3 partial_upfront convertible  20
        p5.48xlarge   savings_plan 1 no_upfront      compute      44.1
        p5.48xlarge   savings_plan 3 all_upfront     ec2_instance 41.2
        trn1.2xlarge  on_demand    0 -               -            1.34375
    """)
    columns = "DISTINCT provider, region, zone, currency, price_as_of, effective_start"
    assert shown(store, columns) == words("""
        aws us-east-1 - USD 2026-11-21 2026-11-01
        aws us-east-1 - USD 2026-11-21 None
    """)
    [(types,)] = rows(store, "SELECT count(*) FROM instance_types")
    assert rows(store, "SELECT kind, source, rows FROM loads") == [("prices", "aws", result.prices + types)]


def test_ec2_in_pages(cloud: Cloud, store: Store) -> None:
    def item(name: str) -> str:
        gpu = "<gpus><item><name>L4</name><count>1</count><memoryInfo><sizeInMiB>22888</sizeInMiB></memoryInfo></item></gpus>"
        return f"<item><instanceType>{name}</instanceType><gpuInfo>{gpu}</gpuInfo></item>"

    def trick(service: str, number: int) -> Reply | None:
        if service != "ec2":
            return None
        more = "<nextToken>2</nextToken>" if number == 1 else ""
        page = f"<instanceTypeSet>{item(f'g6.page{number}')}</instanceTypeSet>{more}"
        space = "http://ec2.amazonaws.com/doc/2016-11-15/"
        return Reply(
            200,
            f'<DescribeInstanceTypesResponse xmlns="{space}">{page}</DescribeInstanceTypesResponse>'.encode(),
        )

    cloud.trick = trick
    assert collect(cloud, store).ok
    types = shown(store, "instance_type, gpu_model, gpu_count, vcpus", "instance_types")
    assert types == words("g6.page1 L4 1.0 None\ng6.page2 L4 1.0 None")


def test_throttling_is_waited_out(cloud: Cloud, store: Store) -> None:
    def trick(service: str, number: int) -> Reply | None:
        if service == "pricing" and number in (1, 3):
            return Reply(400, {"__type": "ThrottlingException", "message": "Rate exceeded"})
        if service == "savingsplans" and number == 1:
            return Reply(429, {"message": "slow down"}, {"x-amzn-ErrorType": "ThrottlingException"})
        return None

    cloud.trick = trick
    assert collect(cloud, store).ok


XML = b"<Response><Errors><Error><Code>RequestExpired</Code><Message>Request has expired.</Message></Error></Errors></Response>"


@pytest.mark.parametrize(
    ("service", "number", "reply", "message"),
    [
        ("ec2", 1, Reply(400, XML), "the credentials have expired (DescribeInstanceTypes: RequestExpired)"),
        (
            "pricing",
            2,
            Reply(200, b'{"FormatVersion": "aws_v1", "PriceList": ["{'),
            "half an answer of get_products",
        ),
        ("pricing", 0, Reply(200, b'{"PriceList": ["{', cut=1000), "half an answer of get_products"),
        (
            "savingsplans",
            1,
            Reply(403, {"__type": "AccessDeniedException"}),
            "DescribeSavingsPlansOfferingRates is not allowed",
        ),
    ],
)
def test_a_failure_is_one_line_and_nothing_is_written(
    cloud: Cloud,
    store: Store,
    first: tuple[Store, PriceResult],
    service: str,
    number: int,
    reply: Reply,
    message: str,
) -> None:
    """`number` is that of the question that is answered so; 0: all."""
    shutil.copy(first[0].path, store.path)
    before = rows(store, "SELECT * FROM list_prices ORDER BY ALL")
    cloud.trick = lambda name, at: reply if name == service and number in (0, at) else None
    check_failure(collect(cloud, store, now=NOW.replace(day=22)), f"aws: {message}")
    assert rows(store, "SELECT * FROM list_prices ORDER BY ALL") == before
    assert rows(store, "SELECT count(*) FROM loads") == [(1,)]


def test_regions_come_from_nodes_where_none_are_configured(cloud: Cloud, store: Store) -> None:
    with store.write() as con:
        for number, region in enumerate(("eu-west-1", "us-central1")):
            labels = {"label_topology_kubernetes_io_region": region}
            con.execute(
                "INSERT INTO series VALUES ($1, $1, 'prometheus', 'c', 'kube_node_labels', $2)",
                [number, labels],
            )
    result = collect(cloud, store)
    assert result.ok and result.regions == ("eu-west-1",)


def test_without_credentials_the_public_lists_are_asked(
    store: Store, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    for name in ("AWS_ACCESS_KEY_ID", "AWS_SECRET_ACCESS_KEY", "AWS_PROFILE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path))
    monkeypatch.setenv("AWS_EC2_METADATA_DISABLED", "true")
    monkeypatch.setattr(public, "_ATTEMPTS", 1)
    check_failure(
        collected("aws", Config(aws=Aws(price_list_url="http://127.0.0.1:9")), store),
        "aws: cannot be reached",
    )
    assert not store.exists
